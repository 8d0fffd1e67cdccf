/**
 * One durable run in memory, with the guards that a store has: its state, its fence, and its journal. Each operation is
 * one atomic step. Guards can be taken out one by one, as planted bugs.
 */
import type { EntryBody, JournalEntry, NewEntry } from "../../src/model/durable/journal-entry.ts";
import { refusalOfSignal } from "../../src/model/durable/signal-buffer.ts";
import type {
  AppendAnswer,
  JournalPage,
  ReadAnswer,
  Slip,
  SlipAnswer,
  Start,
  SuspendAnswer,
  SuspendRequest,
} from "../../src/worker/durable/run-journal.ts";

export type StoreBug =
  | "suspend ignores seen"
  | "append does not resume"
  | "no key check"
  | "resume keeps ttlAt"
  | "record without fence";

export class MemoryRun {
  state: "ready" | "running" | "suspended" | "scheduled" | "completed" | "expired" = "ready";
  fence = 0;
  dueAt = 0;
  ttlAt: number | null = null;
  seen = 0;
  result: unknown = undefined;
  readonly entries: JournalEntry[] = [];
  readonly slips: Slip[] = [];
  readonly children: string[] = [];
  readonly #keys = new Map<string, number>();
  readonly #now: () => number;
  readonly #bug: StoreBug | null;
  #settledFence = -1;

  constructor(now: () => number, bug: StoreBug | null = null) {
    this.#now = now;
    this.#bug = bug;
  }

  get last(): number {
    return this.entries.length;
  }

  claim(): number {
    this.state = "running";
    this.ttlAt = null;
    return ++this.fence;
  }

  /** Its lease ran out. */
  reclaim(fence: number): void {
    if (this.state === "running" && this.fence === fence) this.state = "ready";
  }

  read(after: number): JournalPage {
    return { entries: this.entries.slice(after), slips: [...this.slips], now: this.#now() };
  }

  readIfLeased(fence: number, after: number): ReadAnswer {
    return this.#isLeased(fence) ? { kind: "ok", ...this.read(after) } : { kind: "stale" };
  }

  append(fence: number, entries: readonly NewEntry[], starts: readonly Start[]): AppendAnswer {
    if (!this.#isLeased(fence)) return { kind: "stale" };
    for (const entry of entries) this.#put(entry);
    for (const { call } of starts) if (!this.children.includes(call)) this.children.push(call);
    return { kind: "ok", last: this.last, at: this.#now() };
  }

  suspend(fence: number, { seen, entries, starts, rest }: SuspendRequest): SuspendAnswer {
    if (!this.#isLeased(fence)) return { kind: this.#settledFence === fence ? "suspended" : "stale" };
    if (this.last !== seen && this.#bug !== "suspend ignores seen") return { kind: "arrived" };
    this.append(fence, entries, starts);
    this.seen = seen + entries.length;
    this.#settledFence = fence;
    const wakeAt =
      rest.wake === null ? null : "at" in rest.wake ? rest.wake.at : this.#now() + rest.wake.inMs;
    this.state = rest.as;
    if (rest.as === "scheduled") this.dueAt = wakeAt ?? 0;
    else this.ttlAt = wakeAt;
    return { kind: "suspended" };
  }

  complete(fence: number, result: unknown): "ok" | "already" | "stale" {
    if (!this.#isLeased(fence)) return this.#settledFence === fence ? "already" : "stale";
    this.#settledFence = fence;
    this.state = "completed";
    this.result = result;
    return "ok";
  }

  /** By anybody: a signal, the end of a child. A suspended run becomes ready. */
  arrive(key: string, body: EntryBody): "delivered" | "buffered" | "duplicate" | "refused" {
    if (this.state === "completed" || this.state === "expired") return "refused";
    if (this.#keys.has(key) && this.#bug !== "no key check") return "duplicate";
    if (body.kind === "signal" && refusalOfSignal({ count: 0, bytes: 0 }, body.value?.length ?? 0) !== null)
      return "refused";
    this.#put({ key, body });
    if (this.state !== "suspended" || this.#bug === "append does not resume") return "buffered";
    this.#resume();
    return "delivered";
  }

  /** What the duties do: a wake-up, a promotion, an expiry. */
  serveClocks(): void {
    const now = this.#now();
    if (this.state === "scheduled" && this.dueAt <= now) this.state = "ready";
    if (this.ttlAt === null || this.ttlAt > now) return;
    if (this.state === "suspended") this.#resume();
    else if (this.state === "ready") this.state = "expired";
  }

  commitSlip(fence: number, slip: Slip): SlipAnswer {
    const recorded = this.slips.find(({ call }) => call === slip.call);
    if (recorded !== undefined) return { kind: "recorded", value: recorded.value };
    if (!this.#isLeased(fence)) return { kind: "stale" };
    this.slips.push(slip);
    return { kind: "ok" };
  }

  has(key: string): boolean {
    return this.#keys.has(key);
  }

  #resume(): void {
    this.state = "ready";
    if (this.#bug !== "resume keeps ttlAt") this.ttlAt = null;
  }

  #isLeased(fence: number): boolean {
    if (this.#bug === "record without fence") return this.state === "running";
    return this.state === "running" && this.fence === fence;
  }

  #put({ key, body }: NewEntry): void {
    if (this.#keys.has(key) && this.#bug !== "no key check") return;
    const number = this.entries.length + 1;
    if (!this.#keys.has(key)) this.#keys.set(key, number);
    this.entries.push({ number, at: this.#now(), key, body });
  }
}
