// Formats the tree: oxfmt, and the templates of Lua (lua/format.ts). Options and paths go to oxfmt.
import { spawnSync } from "node:child_process";

const commands = [["node_modules/oxfmt/bin/oxfmt", ...process.argv.slice(2)], ["scripts/lua/format.ts"]];
for (const command of commands) {
  const { status } = spawnSync(process.execPath, command, { stdio: "inherit" });
  if (status !== 0) process.exitCode = status ?? 1;
}
