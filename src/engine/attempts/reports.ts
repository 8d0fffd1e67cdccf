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

type Draft = { -readonly [Key in keyof LeasedWrite]: LeasedWrite[Key] } & { logs?: string[] };

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
      call: options.call,
      weightMax: options.weightMax,
      giveUpMs: options.giveUpMs,
      weigh: ({ logs }) => 1 + (logs?.length ?? 0),
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

  whenIdle(): Promise<void> {
    return this.#batcher.whenIdle();
  }
}

function leaseKey({ id, seq, fence }: LeasedWrite): string {
  return `${fence}:${seq}:${id}`;
}
