/**
 * Objects as files of one folder: `file:///folder`. The object "log/17" is the file log/17.
 *
 * A put writes a temporary file, syncs it, and gives it its name by link() (if absent) or rename(). Both are atomic, so
 * a reader never sees half an object. Then it syncs the folder: without that, a power loss could take the name away.
 *
 *   folder/log/000000000017       an object
 *   folder/.temporary/<unique>    a put in progress, or one whose process died; removed after an hour
 *
 * Not promised: Windows cannot sync a folder, so there a power loss may take the last puts away. A file system that
 * ignores case (macOS by default) takes "A" and "a" for one object. A network file system must know hard links. "a" and
 * "a/b" cannot both be objects.
 */
import { link, mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { Dirent } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import type { Platform } from "../../../platform/platform.ts";
import { ObjectsError, UnknownCondition, checkName, closedError } from "./objects.ts";
import type { NamePage, Objects, ObjectsErrorKind, ObjectsOutcome } from "./objects.ts";

const isWindows = sep === "\\";
const temporaryFolder = ".temporary";
/** No put takes that long, so its process is gone. */
const orphanAgeMs = 60 * 60 * 1000;
const deletionsAtOnce = 16;

/**
 * The folder is made if its parent exists. A process that only looks makes nothing: to it a folder that could be made
 * is an empty bucket. `linkFile` is for tests.
 */
export async function openFiles(
  folder: string,
  platform: Platform,
  { isMade = true, linkFile = link }: { readonly isMade?: boolean; readonly linkFile?: typeof link } = {},
): Promise<Objects> {
  const objects = new FileObjects(folder, platform, linkFile);
  await (isMade ? objects.make() : objects.look());
  return objects;
}

class FileObjects implements Objects {
  readonly #folder: string;
  readonly #platform: Platform;
  readonly #linkFile: typeof link;
  /** The folders that hold objects, open for their syncs. */
  readonly #folders = new Map<string, Promise<FileHandle | null>>();
  readonly #unique: string;
  #temporary: Promise<void> | null = null;
  #couldBeMade = false;
  #puts = 0;
  #underway = 0;
  #whenIdle: (() => void) | null = null;
  #isClosed = false;

  constructor(folder: string, platform: Platform, linkFile: typeof link) {
    this.#linkFile = linkFile;
    // Without a slash at its end: the walk up from an object must meet this very text.
    this.#folder = resolve(folder);
    this.#platform = platform;
    this.#unique = `${platform.processId}-${Buffer.from(platform.randomBytes(8)).toString("hex")}`;
  }

  async make(): Promise<void> {
    try {
      await makeFolder(this.#folder);
      await this.#makeTemporary();
    } catch (error) {
      throw this.#errorOf(error, "open", "did-not-happen");
    }
  }

  async look(): Promise<void> {
    this.#couldBeMade = !(await isFolder(this.#folder)) && (await isFolder(dirname(this.#folder)));
  }

  /** Once. Not the folder itself: if that is gone, somebody has removed the store. */
  #makeTemporary(): Promise<void> {
    if (this.#temporary === null) {
      this.#temporary = makeFolder(join(this.#folder, temporaryFolder)).then(() => this.#removeOrphans());
      this.#temporary.catch(() => (this.#temporary = null));
    }
    return this.#temporary;
  }

  put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    return this.#run(async () => {
      const path = this.#pathOf(name);
      const temporary = join(this.#folder, temporaryFolder, `${this.#unique}-${(this.#puts += 1)}`);
      let outcome: ObjectsOutcome = "did-not-happen";
      try {
        // The folder's descriptor comes first: if it cannot be opened, nothing has happened yet.
        const folder = await this.#folderOf(path);
        await this.#makeTemporary();
        await writeDurably(temporary, bytes);
        let isStored = true;
        try {
          outcome = "unknown";
          await (ifAbsent ? this.#linkFile(temporary, path) : rename(temporary, path));
        } catch (error) {
          const code = codeOf(error) ?? "";
          if (!ifAbsent || code !== "EEXIST") {
            // A clear refusal. After an error of the disk or of a network file system the name may be there.
            if (meanings[code] !== undefined) outcome = "did-not-happen";
            if (ifAbsent && noLinkCodes.has(code) && (await this.#hasNoLinks(temporary)))
              throw this.#unlinkable(error);
            throw error;
          }
          isStored = false;
        }
        // Also if the object exists already: its own put may not have come as far as this sync.
        await folder?.sync();
        return isStored ? "stored" : "exists";
      } catch (error) {
        throw this.#errorOf(error, `put ${name}`, outcome);
      } finally {
        if (ifAbsent || outcome === "did-not-happen") await unlink(temporary).catch(() => undefined);
      }
    });
  }

  /** Nothing but the file system itself refuses a link beside a file that this process has just written. */
  async #hasNoLinks(temporary: string): Promise<boolean> {
    const beside = `${temporary}-link`;
    try {
      await this.#linkFile(temporary, beside);
      await unlink(beside);
      return false;
    } catch (error) {
      return noLinkCodes.has(codeOf(error) ?? "");
    }
  }

  #unlinkable(cause: unknown): ObjectsError {
    const sentence =
      "is on a file system without hard links, so it cannot keep a second writer out. Use another one";
    return new UnknownCondition("refused", `${this.#folder} ${sentence}`, { cause });
  }

  get(name: string): Promise<Uint8Array | null> {
    return this.#run(async () => {
      try {
        return await readFile(this.#pathOf(name));
      } catch (error) {
        // A folder of that name, or a file in the place of one of its folders: there is no such object.
        const isAbsent = ["ENOENT", "ENOTDIR", "EISDIR"].includes(codeOf(error) ?? "");
        if (isAbsent && (this.#couldBeMade || (await isFolder(this.#folder)))) return null;
        throw this.#errorOf(error, `get ${name}`, "did-not-happen");
      }
    });
  }

  /** All names in one page: the system lists a folder in no order, so each page would have to read all of it. */
  list(prefix: string, after: string | null): Promise<NamePage> {
    return this.#run(async () => {
      const names: string[] = [];
      try {
        const begin = prefix.slice(0, prefix.lastIndexOf("/") + 1);
        await this.#collect(begin, (name) => {
          if (name.startsWith(prefix) && (after === null || name > after)) names.push(name);
        });
      } catch (error) {
        throw this.#errorOf(error, `list ${prefix}`, "did-not-happen");
      }
      return { names: names.sort(), isLast: true };
    });
  }

  async #collect(begin: string, found: (name: string) => void): Promise<void> {
    let entries: Dirent[];
    try {
      entries = await readdir(join(this.#folder, begin), { withFileTypes: true });
    } catch (error) {
      if (codeOf(error) === "ENOENT" && begin !== "" && (await isFolder(this.#folder))) return;
      throw error;
    }
    for (const entry of entries) {
      if (entry.name.startsWith(".")) continue;
      if (entry.isDirectory()) await this.#collect(`${begin}${entry.name}/`, found);
      else if (entry.isFile()) found(begin + entry.name);
    }
  }

  remove(names: readonly string[]): Promise<void> {
    return this.#run(async () => {
      const paths = names.map((name) => this.#pathOf(name));
      try {
        const folders = new Set<string>();
        for (let from = 0; from < paths.length; from += deletionsAtOnce)
          await Promise.all(
            paths.slice(from, from + deletionsAtOnce).map(async (path) => {
              if (await removeFile(path)) folders.add(path);
            }),
          );
        const descriptors = new Set(await Promise.all([...folders].map((path) => this.#folderOf(path))));
        for (const folder of descriptors) await folder?.sync();
      } catch (error) {
        throw this.#errorOf(error, `remove ${names.length} objects`, "unknown");
      }
    });
  }

  /** A folder has none. */
  async deletionRules(): Promise<readonly string[]> {
    return [];
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // A put that is under way still has to sync its folder.
    if (this.#underway > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
    const opened = await Promise.allSettled(this.#folders.values());
    this.#folders.clear();
    for (const one of opened) if (one.status === "fulfilled") await one.value?.close().catch(() => undefined);
  }

  async #run<T>(verb: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw closedError();
    this.#underway += 1;
    try {
      return await verb();
    } finally {
      this.#underway -= 1;
      if (this.#underway === 0) this.#whenIdle?.();
    }
  }

  #pathOf(name: string): string {
    return join(this.#folder, checkName(name));
  }

  #folderOf(path: string): Promise<FileHandle | null> {
    const folder = dirname(path);
    let opening = this.#folders.get(folder);
    if (opening === undefined) {
      opening = this.#openFolder(folder);
      this.#folders.set(folder, opening);
      opening.catch(() => this.#folders.delete(folder));
    }
    return opening;
  }

  async #openFolder(folder: string): Promise<FileHandle | null> {
    // Not the root itself: if that is gone, somebody has removed the store.
    if (folder !== this.#folder) await this.#makeFolders(folder);
    return openForSync(folder);
  }

  async #makeFolders(folder: string): Promise<void> {
    const parent = dirname(folder);
    if (parent !== this.#folder) await this.#makeFolders(parent);
    await makeFolder(folder);
  }

  async #removeOrphans(): Promise<void> {
    const folder = join(this.#folder, temporaryFolder);
    for (const { name } of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, name);
      const found = await stat(path).catch(() => null);
      if (found !== null && this.#platform.now() - found.mtimeMs > orphanAgeMs) await removeFile(path);
    }
  }

  #errorOf(error: unknown, verb: string, outcome: ObjectsOutcome): unknown {
    const code = codeOf(error);
    if (code === null || error instanceof ObjectsError) return error;
    const [kind, sentence] = meanings[code] ?? (["refused", "could not be used. Check the disk"] as const);
    const what = outcome === "unknown" ? "it may or may not have happened" : "nothing of it happened";
    const message = `${this.#folder} ${sentence}; ${what}. (${verb}: ${code})`;
    return new ObjectsError(kind, message, { outcome, cause: error });
  }
}

/** What file systems without hard links say. */
const noLinkCodes: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

type Meaning = readonly [kind: ObjectsErrorKind, sentence: string];
const denied: Meaning = ["denied", "cannot be read or written. Give this process permission to the folder"];
const full: Meaning = ["refused", "has no room left on its disk or within its quota. Free some space"];
const missing: Meaning = ["no-bucket", "does not exist. Correct the URL, or make its parent folder"];
const noFolder: Meaning = ["no-bucket", "is not a folder, or has a file where a folder must be"];
const busy: Meaning = ["busy", "cannot be used right now: too many open files, or a busy disk"];
const meanings: Readonly<Record<string, Meaning>> = {
  ...{ EACCES: denied, EPERM: denied, EROFS: denied, ENOSPC: full, EDQUOT: full },
  ...{ ENOENT: missing, ENOTDIR: noFolder, EISDIR: noFolder, EEXIST: noFolder },
  ...{ EMFILE: busy, ENFILE: busy, EAGAIN: busy, EBUSY: busy },
};

/** The code of an error of the system; null for any other error. */
function codeOf(error: unknown): string | null {
  if (!(error instanceof Error) || !("syscall" in error)) return null;
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : null;
}

async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "wx");
  try {
    await file.writeFile(bytes);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** @returns whether the file was there. */
async function removeFile(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Another process may have made it a moment ago, so its name is synced in either case. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (codeOf(error) !== "EEXIST" || !(await isFolder(folder))) throw error;
  }
  const parent = await openForSync(dirname(folder));
  try {
    await parent?.sync();
  } finally {
    await parent?.close();
  }
}

/** Null on Windows, which opens a folder but does not sync it. */
async function openForSync(folder: string): Promise<FileHandle | null> {
  return isWindows ? null : open(folder, "r");
}

async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found !== null && found.isDirectory();
}
