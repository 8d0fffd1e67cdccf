/**
 * Database files of one run of the bench, all in one folder on the disk the repository lies on (a temporary folder may
 * be memory, where waiting for the disk costs nothing).
 */
import { constants } from "node:fs";
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Scratch } from "./scratch.ts";

const cacheFolder = fileURLToPath(new URL("../../node_modules/.cache/millrace-bench", import.meta.url));

export class ScratchFiles implements Scratch {
  readonly #folder = join(cacheFolder, String(process.pid));
  #made = 0;

  async open(): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
  }

  async fresh(): Promise<string> {
    this.#made += 1;
    return join(this.#folder, `${this.#made}.db`);
  }

  async filled(): Promise<void> {}

  async copyOf(file: string): Promise<string> {
    const copy = await this.fresh();
    for (const suffix of await suffixesOf(file)) {
      await copyFile(file + suffix, copy + suffix, constants.COPYFILE_FICLONE);
    }
    return copy;
  }

  async remove(file: string): Promise<void> {
    for (const suffix of await suffixesOf(file)) await rm(file + suffix, { force: true });
  }

  holdReader(): Promise<never> {
    return Promise.reject(new Error("No plan holds a reader on a file."));
  }

  memoryBytes(): Promise<never> {
    return Promise.reject(new Error("A file takes no memory of a server."));
  }

  async close(): Promise<void> {
    this.abandon();
  }

  abandon(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** SQLite's log lies beside its file. The shared memory does not belong to a copy. */
async function suffixesOf(file: string): Promise<string[]> {
  const names = await readdir(dirname(file));
  const wanted = [basename(file), `${basename(file)}-wal`];
  return names.filter((name) => wanted.includes(name)).map((name) => name.slice(basename(file).length));
}
