/**
 * Counts what a process asks of its objects: requests by kind and bytes both ways, since the store was opened. What a
 * provider bills follows from these counts; `prices.ts` turns them into money.
 */
import type { StoreRequests } from "../../../store/store.ts";
import { logPrefix } from "../layout.ts";
import type { NamePage, Objects } from "./objects.ts";

/** Every verb counts when it is called, also if it fails: providers bill most refused requests. */
export interface RequestCounts extends Omit<
  StoreRequests,
  "amplification" | "cost" | "settled" | "costPerMillion"
> {
  /** Of the gets: records of the log. */
  readonly logGot: number;
  readonly logBytesGot: number;
}

type Counts = { -readonly [Kind in keyof RequestCounts]: number };

export class CountedObjects implements Objects {
  readonly #objects: Objects;
  readonly #counts: Counts = {
    put: 0,
    get: 0,
    list: 0,
    remove: 0,
    bytesPut: 0,
    bytesGot: 0,
    logPut: 0,
    logBytesPut: 0,
    logGot: 0,
    logBytesGot: 0,
  };

  constructor(objects: Objects) {
    this.#objects = objects;
  }

  get counts(): RequestCounts {
    return { ...this.#counts };
  }

  put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    const counts = this.#counts;
    counts.put += 1;
    counts.bytesPut += bytes.length;
    if (name.startsWith(logPrefix)) {
      counts.logPut += 1;
      counts.logBytesPut += bytes.length;
    }
    return this.#objects.put(name, bytes, ifAbsent);
  }

  async get(name: string): Promise<Uint8Array | null> {
    const counts = this.#counts;
    counts.get += 1;
    const bytes = await this.#objects.get(name);
    if (bytes === null) return null;
    counts.bytesGot += bytes.length;
    if (name.startsWith(logPrefix)) {
      counts.logGot += 1;
      counts.logBytesGot += bytes.length;
    }
    return bytes;
  }

  list(prefix: string, after: string | null): Promise<NamePage> {
    this.#counts.list += 1;
    return this.#objects.list(prefix, after);
  }

  remove(names: readonly string[]): Promise<void> {
    this.#counts.remove += names.length;
    return this.#objects.remove(names);
  }

  close(): Promise<void> {
    return this.#objects.close();
  }
}
