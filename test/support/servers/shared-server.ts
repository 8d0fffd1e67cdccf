/**
 * One server of each kind for all test files of a run, however many workers run them: the first that needs it starts a
 * keeper process, the others wait for its word. The keeper stops the server when the run's main process is gone, killed
 * or not.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hangMs } from "../hang-ms.ts";

export type ServerKind = "postgres-npm" | "postgres-installed" | "redis";

/** The keeper, which waits for the server as long as for a hang, is to say first what is wrong. */
const startMaxMs = 1.5 * hangMs;
const lookMs = 40;

export async function sharedServerUrl(kind: ServerKind): Promise<string> {
  const { MILLRACE_TEST_RUN: run } = process.env;
  if (run === undefined) throw new Error("servers are shared within a run of Vitest, and this is none");
  const folder = join(tmpdir(), `millrace-run-${run}-${kind}`);
  const said = join(folder, "said");
  if (isFirst(folder)) {
    const keeper = join(import.meta.dirname, "server-keeper.ts");
    const args = [keeper, kind, said, String(process.ppid)];
    spawn(process.execPath, args, { detached: true, stdio: "ignore" }).unref();
  }
  for (let waitedMs = 0; !existsSync(said); waitedMs += lookMs) {
    if (waitedMs > startMaxMs) throw new Error(`no server (${kind}) was started within ${startMaxMs} ms`);
    await new Promise((resolve) => void setTimeout(resolve, lookMs));
  }
  const word = readFileSync(said, "utf8");
  if (!URL.canParse(word)) throw new Error(word);
  return word;
}

function isFirst(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch {
    return false;
  }
}
