/** Keeps one server while the process that it was started for lives: server-keeper.ts <kind> <file> <process id>. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { installedBinaries, npmBinaries, startPostgres } from "./postgres-server.ts";
import type { PostgresBinaries } from "./postgres-server.ts";
import { startRedis } from "./redis-server.ts";
import type { ServerKind } from "./shared-server.ts";
import type { TestServer } from "./test-server.ts";

const [kind, file, forProcess] = process.argv.slice(2) as [ServerKind, string, string];

const starts: Record<ServerKind, () => Promise<TestServer>> = {
  "postgres-npm": () => startPostgres({ binaries: npmBinaries() }),
  "postgres-installed": () => startPostgres({ binaries: installedBinaries() as PostgresBinaries }),
  redis: () => startRedis(),
};

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
  const server = await starts[kind]();
  say(server.url);
  const look = setInterval(() => {
    if (isAlive(Number(forProcess))) return;
    clearInterval(look);
    void server.stop().then(() => rmSync(dirname(file), { recursive: true, force: true }));
  }, 250);
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
}
