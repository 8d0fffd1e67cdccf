/**
 * The way from a writer's process to the bucket and back. Every verb gets a fate: latency, then refused, lost, done, or
 * done with its reply lost; a late one is done only after its time-out was reported. What has reached the bucket is
 * done there whether the process still lives or not; the reply comes to a process that lives and is awake.
 */
import { ObjectsError } from "../../src/stores/bucket/objects/objects.ts";
import type { NamePage, Objects } from "../../src/stores/bucket/objects/objects.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { VirtualTime } from "../../src/testing/virtual-time.ts";
import type { SimProcess } from "./actors/sim-process.ts";

export type ObjectsFault = "busy" | "lost-request" | "lost-reply" | "late" | "twice" | "slow" | "hang";

export interface FaultyObjectsOptions {
  readonly objects: Objects;
  readonly process: SimProcess;
  readonly time: VirtualTime;
  readonly random: SeededRandom;
  readonly strikes: (fault: ObjectsFault) => boolean;
  /** Nothing reaches the bucket. */
  readonly isAway: () => boolean;
  /** After a verb has had its effect. */
  readonly onDone: (
    verb: "put" | "get" | "list" | "remove",
    names: readonly string[],
    answer: unknown,
  ) => void;
}

const timeoutUs = 2_000_000;
const lateMaxUs = 60_000_000;
const hangMaxUs = 20_000_000;

export class FaultyObjects implements Objects {
  readonly #options: FaultyObjectsOptions;
  readonly #pending = new Set<(error: Error) => void>();
  #isReaped = false;

  constructor(options: FaultyObjectsOptions) {
    this.#options = options;
  }

  put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists"> {
    const { objects } = this.#options;
    // As it was when it was sent.
    const sent = new Uint8Array(bytes);
    return this.#verb("put", [name], () => objects.put(name, sent, ifAbsent));
  }

  get(name: string): Promise<Uint8Array | null> {
    return this.#verb("get", [name], () => this.#options.objects.get(name));
  }

  list(prefix: string, after: string | null): Promise<NamePage> {
    return this.#verb("list", [], () => this.#options.objects.list(prefix, after));
  }

  remove(names: readonly string[]): Promise<void> {
    return this.#verb("remove", names, () => this.#options.objects.remove(names));
  }

  async close(): Promise<void> {}

  /** Everything that a dead process still waits for fails at once, so that it can let go of its files. */
  reap(): void {
    this.#isReaped = true;
    for (const reject of this.#pending) reject(new Error("This process is dead."));
  }

  #verb<T>(
    verb: "put" | "get" | "list" | "remove",
    names: readonly string[],
    run: () => Promise<T>,
  ): Promise<T> {
    if (this.#isReaped) return Promise.reject(new Error("This process is dead."));
    const { process, time, random, strikes, isAway, onDone } = this.#options;
    const isWrite = verb === "put" || verb === "remove";
    const outcome = isWrite ? "unknown" : "did-not-happen";
    return new Promise((resolve, reject) => {
      this.#pending.add(reject);
      const reply = (delayUs: number, answer: () => void): void =>
        void process.deliver(delayUs, () => {
          this.#pending.delete(reject);
          answer();
        });
      const lost = (delayUs: number): void =>
        reply(delayUs, () => reject(new ObjectsError("unreachable", "no answer in time", { outcome })));
      const reach = (then: (answer: T) => void): void =>
        void run().then((answer) => {
          onDone(verb, names, answer);
          then(answer);
        });
      const latencyUs = (): number =>
        strikes("hang")
          ? random.whole(timeoutUs, hangMaxUs)
          : strikes("slow")
            ? random.whole(50_000, timeoutUs)
            : random.whole(200, 20_000);

      if (strikes("busy") || (isAway() && random.chance(0.5)))
        return reply(latencyUs(), () => reject(new ObjectsError("busy", "slow down", { retryAfterMs: 100 })));
      if (strikes("lost-request") || isAway()) return lost(timeoutUs);
      if (isWrite && strikes("late")) {
        time.after(random.whole(timeoutUs, lateMaxUs), () => reach(() => undefined));
        return lost(timeoutUs);
      }
      time.after(latencyUs(), () => {
        if (isAway()) return lost(timeoutUs);
        const isLost = strikes("lost-reply");
        reach((answer) => (isLost ? lost(timeoutUs) : reply(latencyUs(), () => resolve(answer))));
        if (isWrite && strikes("twice")) time.after(latencyUs(), () => reach(() => undefined));
      });
    });
  }
}
