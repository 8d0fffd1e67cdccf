/** A TypeScript file as a user would run it: a process of the pinned Node, in a folder of its own. */
import { spawn } from "node:child_process";

export interface ScriptEnd {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly tookMs: number;
}

export function runScript(path: string, cwd: string): Promise<ScriptEnd> {
  const startMs = performance.now();
  const child = spawn(process.execPath, ["--conditions=millrace-source", path], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  return new Promise((resolve) => {
    child.once("close", (code) => resolve({ code, out, err, tookMs: performance.now() - startMs }));
  });
}
