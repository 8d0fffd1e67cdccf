/**
 * The process as a command sees it: arguments, environment, standard streams, exit code. The command line runs on this
 * and on Platform alone, so that nothing else touches the process.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodePlatform, nodeVersion } from "./node-platform.ts";

export interface Terminal {
  readonly args: readonly string[];
  /** Such as "22.18.0". */
  readonly nodeVersion: string;
  readonly isTTY: boolean;
  /** Width of the terminal; 100 if there is none, or if it reports no size. */
  readonly columns: number;
  readonly rows: number;
  readonly hasColors: boolean;
  /** A variable of the environment; a blank one counts as unset. */
  readEnv(name: string): string | undefined;
  writeOut(text: string): void;
  writeErr(text: string): void;
  readIn(): Promise<string>;
  /** A new folder that only this user can read. */
  makeTemporaryFolder(prefix: string): string;
  /** Ends the process once everything written has left it, whatever else is still going on. */
  exit(code: number): Promise<never>;
}

export const nodeTerminal: Terminal = {
  args: process.argv.slice(2),
  nodeVersion,
  get isTTY() {
    return process.stdout.isTTY;
  },
  get columns() {
    return process.stdout.columns || 100;
  },
  get rows() {
    return process.stdout.rows || 40;
  },
  get hasColors() {
    return process.stdout.isTTY && process.stdout.hasColors();
  },
  readEnv: (name) => nodePlatform.readEnv(name),
  writeOut: (text) => void process.stdout.write(text),
  writeErr: (text) => void process.stderr.write(text),
  async readIn() {
    const chunks: Buffer[] = [];
    for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString("utf8");
  },
  makeTemporaryFolder: (prefix) => mkdtempSync(join(tmpdir(), prefix)),
  async exit(code) {
    await Promise.all([flush(process.stdout), flush(process.stderr)]);
    process.exit(code);
  },
};

function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed || stream.errored !== null) resolve();
    else stream.write("", () => resolve());
  });
}

// A reader that went away (`millrace list | head -1`) is no failure of the command.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") process.exit(1);
  });
}
