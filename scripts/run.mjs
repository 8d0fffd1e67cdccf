// What every npm script calls: sets the clone up (see setup.mjs), then runs the named target with the pinned Node,
// passing on arguments, signals and exit code. Runs on Node 20 without dependencies, because that may be all a fresh
// machine has.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { SetupError, root, setUp, stopSetUp } from "./setup.mjs";

const SOURCE = "--conditions=millrace-source";
const targets = {
  demo: [SOURCE, "src/cli/main.ts", "demo"],
  test: ["scripts/check.ts"],
  lint: ["node_modules/oxlint/bin/oxlint"],
  format: ["scripts/format.ts"],
  types: ["node_modules/typescript/bin/tsc", "--noEmit"],
  build: ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"],
  search: ["scripts/search.ts"],
  bench: [SOURCE, "bench/main.ts"],
  assembled: [SOURCE, "scripts/assembled.ts"],
  millrace: [SOURCE, "src/cli/main.ts"],
};

const [name = "", ...args] = process.argv.slice(2);
const target = targets[name];
if (target === undefined) {
  console.error(`run.mjs: unknown target "${name}"; known: ${Object.keys(targets).join(", ")}`);
  process.exit(2);
}

// A signal during the set-up first ends npm, so that the lock (released on exit) never frees a folder that npm still
// writes to.
const endings = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };
for (const [signal, code] of Object.entries(endings))
  process.once(signal, () => stopSetUp().finally(() => process.exit(code)));

let nodePath;
try {
  nodePath = await setUp();
} catch (error) {
  if (error instanceof SetupError) {
    if (error.detail !== "") console.error(error.detail.trimEnd());
    console.error(`millrace set-up: ${error.message}`);
  } else if (typeof error.syscall === "string") {
    const advice = "make this folder writable, with 500 MB free, and run the command again";
    console.error(`millrace set-up: ${error.message}: ${advice}.`);
  } else throw error;
  process.exit(1);
}

for (const signal of Object.keys(endings)) process.removeAllListeners(signal);
const path = [join(root, "node_modules", ".bin"), dirname(nodePath), process.env.PATH].join(delimiter);
const child = spawn(nodePath, [...target, ...args], {
  cwd: root,
  stdio: "inherit",
  env: { ...process.env, PATH: path },
});
// A terminal sends Ctrl-C to the whole group, the child included; passing it on again would read as a second, impatient
// Ctrl-C.
process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
process.on("SIGTERM", () => child.kill("SIGTERM"));
process.on("SIGHUP", () => child.kill("SIGHUP"));
child.once("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
