/** A TypeScript file as a user would run it: a process of Node, in a folder of its own. */
import { spawn } from "node:child_process";

export interface ScriptEnd {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

interface ScriptSetting {
  readonly env?: Readonly<Record<string, string>>;
  /** It runs until it is told to stop, which happens as soon as it has said something. */
  readonly isService?: boolean;
  /** The Node that runs it and its options; the pinned one if left out. */
  readonly node?: readonly [path: string, ...options: string[]];
}

export function runScript(path: string, cwd: string, setting: ScriptSetting = {}): Promise<ScriptEnd> {
  const [node, ...options] = setting.node ?? [process.execPath];
  const child = spawn(node, [...options, "--conditions=millrace-source", path], {
    cwd,
    env: { ...process.env, ...setting.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  if (setting.isService === true) child.stdout.once("data", () => child.kill("SIGTERM"));
  return new Promise((resolve) => {
    child.once("close", (code) => resolve({ code, out, err }));
  });
}
