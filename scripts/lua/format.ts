// Formats the Lua in src/ (lua-templates.ts). With --check it changes nothing, names the files that are not formatted,
// and fails.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { formatLuaTemplates } from "./lua-templates.ts";

const root = join(import.meta.dirname, "..", "..");
const isCheck = process.argv.includes("--check");

for (const path of globSync("src/**/*.lua.ts", { cwd: root }).toSorted()) {
  const source = readFileSync(join(root, path), "utf8");
  const formatted = formatLuaTemplates(path, source);
  if (formatted === source) continue;
  console.log(path);
  if (isCheck) process.exitCode = 1;
  else writeFileSync(join(root, path), formatted);
}
