/** Durable runs as people look at them: what a run has done, what it waits for, and which runs wait. */
import { readRun, readRuns } from "../../engine/durable/read-run.ts";
import type { Needs } from "../../engine/services.ts";
import type { CallKind } from "../../model/durable/journal-entry.ts";
import type { RunStep, StepState } from "../../model/durable/run-steps.ts";
import { liveStates } from "../../model/job/job-state.ts";
import type { FindAnswer } from "../../store/operations.ts";
import { checkRun } from "../../worker/durable/check-run.ts";
import type { Handler } from "../../worker/handler.ts";
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";
import { readCursor } from "../jobs/job-filter.ts";

export interface RunStepView {
  /** Its name and count, such as "reserve#1"; before them the branch of a race or the item of an each. */
  readonly step: string;
  readonly kind: CallKind;
  readonly state: StepState;
  readonly at: Date;
  readonly endedAt: Date | null;
  /** How often its code has failed. */
  readonly failures: number;
  readonly signal: string | null;
  /** The business key at which it waits for the signal; null for none. */
  readonly key: string | null;
  /** When its time is over, or when it is tried again; null for never. */
  readonly until: Date | null;
}

export interface RunView {
  readonly id: string;
  /** Grows with each `continueWith` and each retry from the start. */
  readonly round: number;
  /** The version of the handler that the round began with; null before its first entry. */
  readonly version: number | null;
  /** How many entries the journal has. */
  readonly entries: number;
  readonly steps: readonly RunStepView[];
  /** Signals that no wait has taken yet. */
  readonly unread: readonly { readonly signal: string; readonly at: Date; readonly source: string | null }[];
}

export interface WaitingOptions {
  /** The signal that is waited for; absent for any. */
  signal?: string;
  /** The business key at which it is waited for; absent for any and none. */
  key?: string;
  queue?: string;
  name?: string;
  /** The size of a page; 100 by default. */
  limit?: number;
  cursor?: string | null;
}

export interface WaitingRun {
  readonly id: string;
  readonly queue: string;
  readonly name: string;
  readonly waits: readonly RunStepView[];
}

export interface WaitingPage {
  readonly runs: readonly WaitingRun[];
  readonly cursor: string | null;
}

/** A run that the given code could not continue. */
export interface BrokenRun {
  readonly id: string;
  readonly name: string;
  /** In a sentence, with the first difference. */
  readonly why: string;
}

export interface CheckedRuns {
  /** How many runs were replayed. */
  readonly checked: number;
  readonly broken: readonly BrokenRun[];
}

const checkPage = 100;

type RunsNeeds = Needs<"store" | "reads" | "coder" | "platform" | "ids" | "backoffs">;

export class Runs {
  readonly #needs: RunsNeeds;

  constructor(needs: RunsNeeds) {
    this.#needs = needs;
  }

  /** The steps of a run; null if there is no such job, or it is not durable or has not begun. */
  async get(id: string): Promise<RunView | null> {
    const record = await this.#needs.reads.add(checkName(id, "runs.get: id"));
    if (record === null || record.durable === 0) return null;
    const journal = await readRun(this.#needs, id);
    if (journal === null) return null;
    const { round, entries, steps } = journal;
    const read = new Set(entries.flatMap(({ body }) => readBy(body)));
    let version: number | null = null;
    for (const { body } of entries) if (body.kind === "version") version = body.version;
    return {
      ...{ id, round, version, entries: entries.length, steps: steps.map(viewStep) },
      unread: entries.flatMap(({ number, at, body }) =>
        body.kind === "signal" && !read.has(number)
          ? [{ signal: body.name, at: new Date(at), source: body.source ?? null }]
          : [],
      ),
    };
  }

  /**
   * Replays runs in flight with the code of these handlers, and lists those that it could not continue. No code of a
   * step runs and nothing is written. @param options `limit`: how many runs of each job, 10,000 by default.
   */
  async check(handlers: readonly Handler[], options: { readonly limit?: number } = {}): Promise<CheckedRuns> {
    const what = "runs.check";
    const { limit = 10_000 } = checkOptions(options, what, ["limit"]) as { readonly limit?: number };
    checkWhole(limit, `${what}: limit`, 1, 1_000_000);
    const broken: BrokenRun[] = [];
    let checked = 0;
    for (const handler of handlers) {
      if (handler.kind !== "single" || handler.definition.durable === null) continue;
      const { name } = handler.definition;
      let left = limit;
      let cursor: string | null = null;
      do {
        const filter = { states: liveStates, name };
        const page: FindAnswer = await this.#needs.store.findJobs({
          ...{ filter, max: Math.min(left, checkPage), scanMax: 10_000, cursor },
        });
        const begun = page.jobs.filter(({ durable }) => durable !== 0);
        const journals = await readRuns(
          this.#needs,
          begun.map(({ id }) => id),
        );
        for (const [at, record] of begun.entries()) {
          const journal = journals[at];
          if (journal === null || journal === undefined) continue;
          const result = await checkRun(this.#needs, record, journal, handler);
          checked += 1;
          if (result.kind === "continues") continue;
          const why =
            result.kind === "diverges"
              ? result.difference
              : `It began with version ${result.version} of the handler, which is not there.`;
          broken.push({ id: record.id, name, why });
        }
        left -= page.jobs.length;
        ({ cursor } = page);
      } while (cursor !== null && left > 0);
    }
    return { checked, broken };
  }

  /** One page of suspended runs, newest first, with what each waits for. */
  async waiting(options: WaitingOptions = {}): Promise<WaitingPage> {
    const what = "runs.waiting";
    const known = ["signal", "key", "queue", "name", "limit", "cursor"];
    const {
      signal,
      key,
      queue,
      name,
      limit = 100,
      cursor: from = null,
    } = checkOptions(options, what, known) as WaitingOptions;
    checkWhole(limit, `${what}: limit`, 1, 1000);
    for (const [option, value] of Object.entries({ signal, key, queue, name }))
      if (value !== undefined && typeof value !== "string")
        throw new MillraceError("invalid-option", `${what}: ${option} must be a text.`);
    const { store } = this.#needs;
    const filter = {
      states: ["suspended"] as const,
      ...(queue === undefined ? {} : { queue }),
      ...(name === undefined ? {} : { name }),
    };
    const runs: WaitingRun[] = [];
    let cursor = readCursor(from, store.partitions ?? 1, what);
    do {
      const page = await store.findJobs({ filter, max: limit - runs.length, scanMax: 10_000, cursor });
      const journals = await readRuns(
        this.#needs,
        page.jobs.map(({ id }) => id),
      );
      const found = page.jobs.map((job, at): WaitingRun => {
        const steps = journals[at]?.steps ?? [];
        const waits = steps.filter(({ state }) => state === "waiting").map(viewStep);
        return { id: job.id, queue: job.queue, name: job.name, waits };
      });
      runs.push(
        ...found.filter(
          ({ waits }) =>
            (signal === undefined && key === undefined) ||
            waits.some((wait) => wait.signal === (signal ?? wait.signal) && wait.key === (key ?? wait.key)),
        ),
      );
      cursor = page.cursor;
    } while (cursor !== null && runs.length < limit);
    return { runs, cursor };
  }
}

function readBy(body: { readonly kind: string }): readonly number[] {
  if ("signal" in body && typeof body.signal === "number") return [body.signal];
  return "signals" in body ? (body.signals as readonly number[]) : [];
}

function viewStep(step: RunStep): RunStepView {
  const { call, kind, state, at, endedAt, failures, signal, businessKey, until } = step;
  return {
    ...{ step: call, kind, state, failures, signal, key: businessKey },
    at: new Date(at),
    endedAt: endedAt === null ? null : new Date(endedAt),
    until: until === null ? null : new Date(until),
  };
}
