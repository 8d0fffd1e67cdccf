// Bun is not installed here: a process that calls itself Bun stands for it, because the refusal asks for no more.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const asBun = `Object.defineProperty(process, "versions", { value: { ...process.versions, bun: "1.4.4" } });`;

test("under Bun a worker whose handlers start child processes is refused, others work", async () => {
  const preload = `--import=data:text/javascript,${encodeURIComponent(asBun)}`;
  const script = fileURLToPath(new URL("./as-bun.ts", import.meta.url));
  const run = promisify(execFile)(process.execPath, ["--conditions=millrace-source", preload, script]);
  expect((await run).stdout.trim().split("\n")).toEqual([
    "thread: works",
    "inline: works",
    "process: unsupported-runtime",
    "program: unsupported-runtime",
    "command: unsupported-runtime",
  ]);
});
