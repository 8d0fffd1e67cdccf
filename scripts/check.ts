// The whole check behind `npm test`: installs the programs that the tests use, checks types, format, lint and unused
// code (two at a time), then runs Vitest, whose closing lines end the output. A check that fails shows its output and
// ends the run before the tests. With arguments it leaves out the checks and passes the arguments to Vitest:
// `npm test -- src/model` narrows to the files whose path contains that.
import { spawn } from "node:child_process";
import { resolve as resolvePath } from "node:path";
import { makeMemoryFolder } from "./memory-folder.ts";
import { installTestPrograms } from "./test-programs.ts";

type Check = { name: string; command: string[] };

const checks: Check[] = [
  { name: "types", command: ["node_modules/typescript/bin/tsc", "--noEmit"] },
  { name: "format", command: ["node_modules/oxfmt/bin/oxfmt", "--check"] },
  { name: "format of Lua", command: ["scripts/lua/format.ts", "--check"] },
  { name: "lint", command: ["node_modules/oxlint/bin/oxlint"] },
  { name: "unused code", command: ["node_modules/knip/bin/knip.js"] },
];
const AT_ONCE = 2;

/** Hundreds of tests start threads and processes of ours: compiled once, each start costs half. */
const env = { ...process.env, NODE_COMPILE_CACHE: resolvePath("node_modules/.cache/compile") };

const vitestArgs = process.argv.slice(2);
process.exitCode = await main();

async function main(): Promise<number> {
  await installTestPrograms();
  if (vitestArgs.length === 0) {
    const failed = await runChecks();
    if (failed.length > 0) {
      console.log(
        `\nThe tests did not run, because of: ${failed.join(", ")}.\n0 passed, ${failed.length} failed`,
      );
      return 1;
    }
  }
  const reporters = ["--reporter=default", "--reporter=./scripts/closing-line.ts"];
  const memory = makeMemoryFolder();
  try {
    const folder: Record<string, string> = memory === null ? {} : { TMPDIR: memory.path };
    return await runShown(["node_modules/vitest/vitest.mjs", "run", ...reporters, ...vitestArgs], folder);
  } finally {
    memory?.remove();
  }
}

async function runChecks(): Promise<string[]> {
  const waiting = [...checks];
  const failed: string[] = [];
  const lane = async (): Promise<void> => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
      const startMs = performance.now();
      const { code, output } = await runQuietly(check.command);
      const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
      console.log(`${code === 0 ? "ok    " : "FAILED"} ${check.name} (${seconds} s)`);
      if (code === 0) continue;
      console.log(output.trimEnd());
      failed.push(check.name);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return failed;
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

function runShown(command: string[], more: Record<string, string>): Promise<number> {
  const child = spawn(process.execPath, command, { stdio: "inherit", env: { ...env, ...more } });
  process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
}
