/**
 * Reports of running attempts: progress and log lines. While a write of an attempt waits for its call, later reports of
 * the attempt join it: the last progress counts, and all lines are kept, in order. So a handler that reports a thousand
 * times in one flush costs the store one write.
 */
import { overflowLine } from "../../model/job/log-line.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { LeasedWrite, RecordAnswer } from "../../store/operations.ts";
import type { BatcherOptions, Ticket } from "../calls/batcher.ts";
import type { Batching } from "../calls/partition-batcher.ts";

type Draft = { -readonly [Key in keyof LeasedWrite]: LeasedWrite[Key] } & {
  logs?: string[];
  isRepeat?: true;
};

/** `isRepeat`: the call may have happened before, so `at` may not be the time of the entries. */
export type AppendedAnswer = RecordAnswer & { readonly isRepeat?: true };

export class Reports {
  readonly #batcher: Batching<Draft, RecordAnswer>;
  /** Writes that wait for a call, by lease. */
  readonly #waiting = new Map<string, Draft>();

  constructor(
    options: Omit<BatcherOptions<LeasedWrite, RecordAnswer>, "weigh" | "taken">,
    batching: (options: BatcherOptions<Draft, RecordAnswer>) => Batching<Draft, RecordAnswer>,
  ) {
    this.#batcher = batching({
      platform: options.platform,
      flush: options.flush,
      call: (drafts) => recordAll(options.call, drafts),
      weightMax: options.weightMax,
      giveUpMs: options.giveUpMs,
      weigh: ({ logs, entries, frames }) =>
        1 + (logs?.length ?? 0) + (entries?.length ?? 0) + (frames === undefined ? 0 : weightOf(frames)),
      again: (draft) => (draft.entries === undefined ? draft : { ...draft, isRepeat: true }),
      taken: (draft) => {
        const key = leaseKey(draft);
        if (this.#waiting.get(key) === draft) this.#waiting.delete(key);
      },
    });
  }

  /**
   * @returns false if the report joined a waiting write. The ticket of that write then stands for both, and this one is
   * never called.
   */
  write(write: LeasedWrite, ticket: Ticket<RecordAnswer>): boolean {
    const { progress, logs = [] } = write;
    const key = leaseKey(write);
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined && (waiting.logs?.length ?? 0) + logs.length < storeLimits.callItemsMax) {
      if (progress !== undefined) waiting.progress = progress;
      if (logs.length > 0) {
        (waiting.logs ??= []).push(...logs);
        waiting.overflow = overflowLine(storeLimits.logLinesPerJobMax);
      }
      return false;
    }
    const lines =
      logs.length === 0 ? {} : { logs: [...logs], overflow: overflowLine(storeLimits.logLinesPerJobMax) };
    const draft: Draft = { ...write, ...lines } as Draft;
    this.#waiting.set(key, draft);
    this.#batcher.push(draft, ticket);
    return true;
  }

  /**
   * Entries for the journal of a durable run, or output: never joined with another write, because each has its own
   * answer.
   */
  append(write: LeasedWrite): Promise<AppendedAnswer> {
    return this.#batcher.add(write as Draft);
  }

  whenIdle(): Promise<void> {
    return this.#batcher.whenIdle();
  }
}

type Call = BatcherOptions<LeasedWrite, RecordAnswer>["call"];

async function recordAll(call: Call, drafts: readonly Draft[]): ReturnType<Call> {
  if (drafts.every(({ isRepeat }) => isRepeat === undefined)) return call(drafts);
  const answers = await call(drafts.map(({ isRepeat: _mark, ...write }) => write));
  return answers.map((answer, at) =>
    drafts[at]?.isRepeat === true && typeof answer === "object" ? { ...answer, isRepeat: true } : answer,
  );
}

/** A call takes some megabytes of output. */
const charsPerItem = 4096;

function weightOf({ chunks }: NonNullable<LeasedWrite["frames"]>): number {
  return chunks.reduce((sum, { body }) => sum + 1 + Math.floor(body.length / charsPerItem), 0);
}

function leaseKey({ id, seq, fence }: LeasedWrite): string {
  return `${fence}:${seq}:${id}`;
}
