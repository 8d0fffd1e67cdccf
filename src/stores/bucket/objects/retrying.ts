/**
 * Objects whose verbs are tried again when the storage is busy or out of reach, for everybody but the log writer, which
 * has its own way of waiting. A service that says how long to wait is heeded.
 *
 * A put-if-absent looks at what is there after it has failed in a way that leaves its outcome open: its own bytes mean
 * that it had been stored. So two puts of the same bytes under one name may both be answered as stored;
 * distinct writers put distinct bytes.
 */
import { Backoff } from "../../../platform/backoff.ts";
import type { Platform } from "../../../platform/platform.ts";
import { ObjectsError } from "./objects.ts";
import type { NamePage, Objects } from "./objects.ts";

const lengths = { firstMs: 50, maxMs: 2000 };
const triesMax = 12;
/** Tries that hang are given up sooner: each of them lasts until its deadline. */
const giveUpMs = 30_000;

export function retrying(objects: Objects, platform: Platform): Objects {
  return new RetryingObjects(objects, platform);
}

class RetryingObjects implements Objects {
  readonly #objects: Objects;
  readonly #platform: Platform;
  #isClosed = false;

  constructor(objects: Objects, platform: Platform) {
    this.#objects = objects;
    this.#platform = platform;
  }

  put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    let isOpen = false;
    return this.#try(async () => {
      try {
        const answer = await this.#objects.put(name, bytes, ifAbsent);
        if (answer === "stored" || !isOpen) return answer;
        const there = await this.#objects.get(name);
        return there !== null && Buffer.compare(there, bytes) === 0 ? "stored" : "exists";
      } catch (error) {
        if (!(error instanceof ObjectsError)) throw error;
        const { kind, message, retryAfterMs } = error;
        isOpen ||= error.outcome === "unknown";
        // Whatever this try says of itself, an earlier one may have stored it.
        throw isOpen
          ? new ObjectsError(kind, message, { outcome: "unknown", retryAfterMs, cause: error })
          : error;
      }
    });
  }

  get(name: string): Promise<Uint8Array | null> {
    return this.#try(() => this.#objects.get(name));
  }

  list(prefix: string, after: string | null): Promise<NamePage> {
    return this.#try(() => this.#objects.list(prefix, after));
  }

  remove(names: readonly string[]): Promise<void> {
    return this.#try(() => this.#objects.remove(names));
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#objects.close();
  }

  async #try<T>(verb: () => Promise<T>): Promise<T> {
    const platform = this.#platform;
    const endUs = platform.monotonicUs() + giveUpMs * 1000;
    const backoff = new Backoff(platform, lengths);
    for (let tries = 1; ; tries++) {
      try {
        return await verb();
      } catch (error) {
        if (!(error instanceof ObjectsError) || !isPassing(error) || this.#isClosed) throw error;
        const delayMs = Math.max(backoff.failed(), error.retryAfterMs ?? 0);
        if (tries === triesMax || platform.monotonicUs() + delayMs * 1000 > endUs) throw error;
        await new Promise<void>((resolve) => void platform.setTimer(delayMs, resolve, true));
      }
    }
  }
}

function isPassing({ kind }: ObjectsError): boolean {
  return kind === "busy" || kind === "unreachable";
}
