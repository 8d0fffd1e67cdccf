/**
 * Database files of one run of the bench, all in one folder on the disk the repository lies on (a temporary folder may be memory, where
 * waiting for the disk costs nothing). A filled file is made once and copied for every round, so each round starts from the same bytes.
 */
import { constants } from "node:fs";
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const cacheFolder = fileURLToPath(new URL("../node_modules/.cache/millrace-bench", import.meta.url));

export class ScratchFiles {
  readonly folder = join(cacheFolder, String(process.pid));
  #made = 0;

  async open(): Promise<void> {
    await mkdir(this.folder, { recursive: true });
  }

  fresh(): string {
    this.#made += 1;
    return join(this.folder, `${this.#made}.db`);
  }

  async copyOf(file: string): Promise<string> {
    const copy = this.fresh();
    for (const suffix of await suffixesOf(file)) {
      await copyFile(file + suffix, copy + suffix, constants.COPYFILE_FICLONE);
    }
    return copy;
  }

  async remove(file: string): Promise<void> {
    for (const suffix of await suffixesOf(file)) await rm(file + suffix, { force: true });
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** SQLite's log lies beside its file. The shared memory does not belong to a copy. */
async function suffixesOf(file: string): Promise<string[]> {
  const names = await readdir(dirname(file));
  const wanted = [basename(file), `${basename(file)}-wal`];
  return names.filter((name) => wanted.includes(name)).map((name) => name.slice(basename(file).length));
}
