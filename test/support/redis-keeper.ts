/** Keeps one Redis server while the process that it was started for lives: redis-keeper.ts <file> <process id>. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { startRedis } from "./redis-server.ts";

const [file, forProcess] = process.argv.slice(2) as [string, string];

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
  const server = await startRedis();
  say(server.url);
  const look = setInterval(() => {
    if (isAlive(Number(forProcess))) return;
    clearInterval(look);
    void server.stop().then(() => rmSync(dirname(file), { recursive: true, force: true }));
  }, 250);
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
}
