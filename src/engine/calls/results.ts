/**
 * Waits for the ends of jobs, from any process. The store sends hints of finished ids, and the awaited ones are read in
 * one batch. Hints may be lost, so all awaited ids are also read at slow intervals, in one call for all waiters.
 *
 * If a wait begins before its job's submit, it needs no first read: a job that this submit makes cannot have ended
 * before the watch. The watch outlives its last waiter for a while. Beginning one reads the feed, and a process that
 * makes one call after the other would do so for each.
 */
import { durationText } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { flowQueue } from "../../model/flow/flow-meta.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { Timer } from "../../platform/platform.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Unwatch } from "../../store/store.ts";
import type { Needs } from "../services.ts";

type ResultsNeeds = Needs<"store" | "platform" | "log" | "reads">;

interface Waiter {
  /** False until the submit of its job is answered. Until then a missing job means nothing. */
  isSubmitted: boolean;
  readonly isForFlow: boolean;
  readonly check: ((record: JobRecord) => void) | undefined;
  ended(record: JobRecord | null): void;
  failed(error: unknown): void;
}

/** The waits between two reads of all awaited ids. */
const pollFirstMs = 1000;
const pollMaxMs = 5000;
/** How long the watch stays without a waiter. */
const lingerMs = 5000;

/** The result of the submit of an awaited job. */
export interface Submitted {
  /** The id of another job if that one holds the unique key. */
  readonly id: string;
  /** Whether the submit made the job, which then cannot have ended before. */
  readonly isNew: boolean;
}

interface WaitOptions {
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal | null;
  /** For a wait that begins before the submit of its job. If the submit fails, so does the wait. */
  readonly submitted?: Promise<Submitted>;
  /** True to wait for a flow, left out for a job. A wait with the wrong kind is refused at once. */
  readonly isForFlow?: true;
  /** Throws if the caller may not wait for this job, so that the wait ends at once. */
  readonly check?: (record: JobRecord) => void;
}

export class Results {
  readonly #needs: ResultsNeeds;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #unwatch: Unwatch | null = null;
  /** Polls while there are waiters, and then ends the watch. */
  #timer: Timer | null = null;
  #isLingering = false;
  #pollMs = pollFirstMs;
  #isClosed = false;

  constructor(needs: ResultsNeeds) {
    this.#needs = needs;
  }

  /** @returns the job once it is terminal; null if it does not exist (any more). */
  wait(given: string, options: WaitOptions): Promise<JobRecord | null> {
    return new Promise((resolve, reject) => {
      const { signal, timeoutMs, submitted } = options;
      let id = given;
      let timer: Timer | null = null;
      let isDone = false;
      const done = (): void => {
        isDone = true;
        timer?.cancel();
        signal?.removeEventListener("abort", aborted);
        this.#delete(id, waiter);
      };
      const waiter: Waiter = {
        isSubmitted: submitted === undefined,
        isForFlow: options.isForFlow === true,
        check: options.check,
        ended: (record) => (done(), resolve(record)),
        failed: (error) => (done(), reject(error)),
      };
      const aborted = (): void =>
        waiter.failed(new MillraceError("aborted", "The wait was aborted.", { cause: signal?.reason }));
      if (this.#isClosed)
        return reject(new MillraceError("closed", "This Millrace was closed; open a new one."));
      if (signal?.aborted === true) return aborted();
      signal?.addEventListener("abort", aborted, { once: true });
      if (timeoutMs !== null) {
        const message = `The job ${id} did not end within ${durationText(timeoutMs)}; it goes on.`;
        timer = this.#needs.platform.setTimer(timeoutMs, () =>
          waiter.failed(new MillraceError("wait-timeout", message)),
        );
      }
      this.#add(id, waiter);
      if (submitted === undefined) return this.#read(id);
      submitted.then(
        (answer) => {
          if (isDone) return;
          waiter.isSubmitted = true;
          if (answer.isNew && answer.id === id) return;
          this.#delete(id, waiter);
          id = answer.id;
          this.#add(id, waiter);
          this.#read(id);
        },
        (error: unknown) => waiter.failed(error),
      );
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const waiters of [...this.#waiters.values()]) {
      for (const waiter of [...waiters])
        waiter.failed(new MillraceError("closed", "Millrace was closed during the wait."));
    }
    this.#endWatch();
  }

  #add(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id);
    if (waiters === undefined) this.#waiters.set(id, new Set([waiter]));
    else waiters.add(waiter);
    // The watch begins before the first read and before the submit, so that no end is missed.
    this.#unwatch ??= this.#needs.store.watch((hint) => {
      if (hint.kind === "finished")
        for (const finished of hint.ids) if (this.#waiters.has(finished)) this.#read(finished);
    });
    this.#pollMs = pollFirstMs;
    if (this.#isLingering) this.#timer?.cancel();
    if (this.#isLingering || this.#timer === null) this.#timer = this.#startTimer();
    this.#isLingering = false;
  }

  #delete(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id);
    if (waiters === undefined || !waiters.delete(waiter) || waiters.size > 0) return;
    this.#waiters.delete(id);
    if (this.#waiters.size > 0) return;
    this.#timer?.cancel();
    this.#isLingering = true;
    this.#timer = this.#needs.platform.setTimer(lingerMs, () => this.#endWatch(), false);
  }

  #endWatch(): void {
    this.#unwatch?.();
    this.#unwatch = null;
    this.#timer?.cancel();
    this.#timer = null;
    this.#isLingering = false;
  }

  #startTimer(): Timer {
    return this.#needs.platform.setTimer(this.#pollMs, () => {
      this.#pollMs = Math.min(this.#pollMs * 2, pollMaxMs);
      this.#timer = this.#startTimer();
      for (const id of this.#waiters.keys()) this.#read(id);
    });
  }

  #read(id: string): void {
    // A read that was sent before the submit was answered may have come too early to find the job.
    const submitted = [...(this.#waiters.get(id) ?? [])].filter(({ isSubmitted }) => isSubmitted);
    this.#needs.reads.push(id, {
      answered: (record) => {
        if (record !== null) this.#refuseOthers(record);
        if (record !== null && !isTerminal(record.state)) return;
        for (const waiter of [...(this.#waiters.get(id) ?? [])])
          if (record !== null || submitted.includes(waiter)) waiter.ended(record);
      },
      // If the store is away, the poll reads again; the waiter's own timeout bounds the wait.
      failed: (error) => this.#needs.log.debug("reading an awaited job failed", { id, error }),
    });
  }

  #refuseOthers(record: JobRecord): void {
    for (const waiter of [...(this.#waiters.get(record.id) ?? [])]) {
      try {
        checkKind(record, waiter.isForFlow);
        waiter.check?.(record);
      } catch (error) {
        waiter.failed(error);
      }
    }
  }
}

/** A flow has no result of its own, and a job has no nodes. The result of a part is kept for the nodes after it. */
function checkKind({ id, queue, flow }: JobRecord, isForFlow: boolean): void {
  const isPart = queue === flowQueue && flow !== null;
  const isFlow = queue === flowQueue && flow === null;
  if (isForFlow ? isFlow : queue !== flowQueue) return;
  const title = `${JSON.stringify(id)} is ${isPart ? "a part of a flow" : isFlow ? "a flow" : "a job"}`;
  if (isForFlow) throw new MillraceError("flow-not-found", `${title}, not a flow.`);
  const what = isPart ? "wait for the flow" : "wait for it";
  throw new MillraceError("other-job", `${title}: ${what} with mill.flows.run(id).result().`);
}
