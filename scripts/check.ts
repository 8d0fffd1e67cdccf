// The whole check behind `npm test`: format, lint, types and unused code first (two at a time), then Vitest, whose closing lines end the
// output. With arguments it runs Vitest only, with those arguments. A check that fails shows its output and ends the run with exit 1.
import { spawn } from "node:child_process";

type Check = { name: string; command: string[] };

const checks: Check[] = [
  { name: "types", command: ["node_modules/typescript/bin/tsc", "--noEmit"] },
  { name: "format", command: ["node_modules/oxfmt/bin/oxfmt", "--check"] },
  { name: "lint", command: ["node_modules/oxlint/bin/oxlint", "--deny-warnings"] },
  { name: "unused code", command: ["node_modules/knip/bin/knip.js"] },
];
const AT_ONCE = 2;

const filter = process.argv.slice(2);
if (filter.length === 0 && !(await runChecks())) process.exit(1);
process.exitCode = await runShown(["node_modules/vitest/vitest.mjs", "run", ...filter]);

async function runChecks(): Promise<boolean> {
  const waiting = [...checks];
  let allPassed = true;
  const lane = async (): Promise<void> => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
      const startMs = performance.now();
      const { code, output } = await runQuietly(check.command);
      const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
      console.log(`${code === 0 ? "ok    " : "FAILED"} ${check.name} (${seconds} s)`);
      if (code !== 0) console.log(output.trimEnd());
      allPassed &&= code === 0;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return allPassed;
}

function runQuietly(command: string[]): Promise<{ code: number; output: string }> {
  const child = spawn(process.execPath, command, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

function runShown(command: string[]): Promise<number> {
  const child = spawn(process.execPath, command, { stdio: "inherit" });
  process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
}
