/** Keeps one Postgres server while the process that it was started for lives: postgres-keeper.ts <npm|installed> <file> <process id>. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { installedBinaries, npmBinaries, startPostgres } from "./postgres-server.ts";
import type { PostgresBinaries } from "./postgres-server.ts";

const [kind, file, forProcess] = process.argv.slice(2) as [string, string, string];

function say(word: string): void {
  writeFileSync(`${file}.draft`, word);
  renameSync(`${file}.draft`, file);
}

function isAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch {
    return false;
  }
}

try {
  const binaries = kind === "npm" ? npmBinaries() : (installedBinaries() as PostgresBinaries);
  const server = await startPostgres({ binaries });
  say(server.url);
  const look = setInterval(() => {
    if (isAlive(Number(forProcess))) return;
    clearInterval(look);
    void server.stop().then(() => rmSync(dirname(file), { recursive: true, force: true }));
  }, 250);
} catch (error) {
  say(`Postgres (${kind}) could not be started: ${String(error)}`);
}
