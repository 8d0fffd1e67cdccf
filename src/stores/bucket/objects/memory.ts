/**
 * Objects in memory, for tests: one MemoryBucket is the bucket, and each handle that it opens is one process's client.
 * A verb takes effect when it is called and answers in a later microtask.
 */
import { checkName, closedError } from "./objects.ts";
import type { NamePage, Objects } from "./objects.ts";

export class MemoryBucket {
  readonly #objects = new Map<string, Uint8Array>();
  readonly #pageSize: number;

  constructor({ pageSize = 1000 }: { readonly pageSize?: number } = {}) {
    this.#pageSize = pageSize;
  }

  /** `prefix` is put before each name as it is. */
  open(prefix = ""): Objects {
    return new MemoryObjects(this.#objects, prefix, this.#pageSize);
  }
}

class MemoryObjects implements Objects {
  readonly #objects: Map<string, Uint8Array>;
  readonly #prefix: string;
  readonly #pageSize: number;
  #isClosed = false;

  constructor(objects: Map<string, Uint8Array>, prefix: string, pageSize: number) {
    this.#objects = objects;
    this.#prefix = prefix;
    this.#pageSize = pageSize;
  }

  async put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    const key = this.#key(name);
    if (ifAbsent && this.#objects.has(key)) return "exists";
    // A copy, here and in get: the caller may use its buffer again. Of a Buffer slice() is none.
    this.#objects.set(key, new Uint8Array(bytes));
    return "stored";
  }

  async get(name: string): Promise<Uint8Array | null> {
    const found = this.#objects.get(this.#key(name));
    return found === undefined ? null : new Uint8Array(found);
  }

  async list(prefix: string, after: string | null): Promise<NamePage> {
    if (this.#isClosed) throw closedError();
    const names: string[] = [];
    for (const key of this.#objects.keys()) {
      if (!key.startsWith(this.#prefix + prefix)) continue;
      const name = key.slice(this.#prefix.length);
      if (after === null || name > after) names.push(name);
    }
    names.sort();
    return { names: names.slice(0, this.#pageSize), isLast: names.length <= this.#pageSize };
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) this.#objects.delete(this.#key(name));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #key(name: string): string {
    if (this.#isClosed) throw closedError();
    return this.#prefix + checkName(name);
  }
}
