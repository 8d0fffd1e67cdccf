/**
 * Looking at jobs and operating on them, one by id or many by filter. Every action reads the job, lets the model say
 * what the change is, and writes it under a guard, so a job that moved on meanwhile is not overwritten: the caller is
 * told.
 */
import type { Engine } from "../engine/engine.ts";
import { readDue, readEnqueueOptions } from "../engine/job-options.ts";
import { readMeta, writeMeta } from "../model/job-meta.ts";
import { parsePolicy, writePolicy } from "../model/job-policy.ts";
import type { Due, Edit } from "../model/change.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { isTerminal, liveStates } from "../model/job-state.ts";
import type { JobState } from "../model/job-state.ts";
import {
  cancelChanges,
  editChange,
  removeChange,
  replayChange,
  rescheduleChange,
  revokeChange,
} from "../model/operate.ts";
import type { OperatorChange } from "../model/operate.ts";
import { checkBoolean, checkOptions, checkWhole } from "../model/option.ts";
import type { Priority } from "../model/rank.ts";
import type { ChangeAnswer } from "../store/operations.ts";
import type { JobRecord } from "../store/records.ts";
import { overStates, readFilter } from "./job-filter.ts";
import type { JobQuery } from "./job-filter.ts";
import { viewJob } from "./job-view.ts";
import type { JobView } from "./job-view.ts";

export type CancelAnswer = "cancelled" | "signalled" | "finished" | "not-found";

export interface WhenOptions {
  delay?: Duration;
  runAt?: Date | number;
}

export interface RetryJobOptions extends WhenOptions {
  /** Whether the replay opens a new round of attempts (default) or allows one more attempt only. */
  resetAttempts?: boolean;
  /** Replaces the input. */
  input?: unknown;
  /** For a filter: how many jobs come back per second, spread by their due times. */
  perSecond?: number;
}

export interface EditJobOptions {
  input?: unknown;
  priority?: Priority;
  /** Replace the headers it was enqueued with; its trace context stays. */
  headers?: Readonly<Record<string, string>>;
}

export interface JobPage {
  readonly jobs: readonly JobView[];
  readonly cursor: string | null;
  /** The partitions of the store whose jobs are not on this page, because they fail; left out for none. */
  readonly missing?: readonly number[];
}

const scanMax = 10_000;
const pageMax = 500;
const triesMax = 5;

export class Jobs {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async get(id: string): Promise<JobView | null> {
    const record = await this.#engine.reads.add(id);
    return record === null ? null : viewJob(this.#engine, record);
  }

  /** One page, newest first. An empty page with a cursor says that nothing was found yet: go on with the cursor. */
  async list(query: JobQuery & { limit?: number; cursor?: string | null } = {}): Promise<JobPage> {
    const { limit = 50, cursor = null, ...filter } = query;
    const max = checkWhole(limit, "list: limit", 1, pageMax);
    const { partitions = 1 } = this.#engine.store;
    const form = partitions === 1 ? /^\d{1,16}$/ : /^[\d.-]{1,20000}$/;
    if (cursor !== null && !form.test(String(cursor)))
      throw new MillraceError(
        "invalid-option",
        "list: cursor must be the cursor of an earlier page, or null.",
      );
    const page = await this.#engine.store.findJobs({ filter: readFilter(filter), max, scanMax, cursor });
    return {
      jobs: page.jobs.map((record) => viewJob(this.#engine, record)),
      cursor: page.cursor,
      ...(page.missing === undefined ? {} : { missing: page.missing }),
    };
  }

  /** All jobs that match, read page by page. Where a partition of the store fails, it throws behind the jobs of the others. */
  async *find(query: JobQuery = {}): AsyncGenerator<JobView, void, undefined> {
    for await (const record of this.#records(query)) yield viewJob(this.#engine, record);
  }

  /** Exact counts per queue and state; where a partition of the store fails, of the rest, and `describe` warns of it. */
  async counts(): Promise<Readonly<Record<string, Readonly<Partial<Record<JobState, number>>>>>> {
    const queues: Record<string, Partial<Record<JobState, number>>> = Object.create(null) as Record<
      string,
      never
    >;
    for (const { queue, state, count } of await this.#engine.store.tallyJobs()) {
      const states = (queues[queue] ??= {});
      states[state] = (states[state] ?? 0) + count;
    }
    return queues;
  }

  /** A job's log lines, oldest first. */
  async logs(id: string): Promise<
    readonly {
      readonly at: Date;
      readonly level: string;
      readonly message: string;
      readonly fields?: unknown;
    }[]
  > {
    const { lines } = await this.#engine.store.readTrail({ id, after: 0, max: pageMax * 2 });
    return lines.map(({ at, body }) => ({ at: new Date(at), ...this.#readLine(body) }));
  }

  /** Cancels one job by id and says what became of it, or all that match and says how many of each. */
  cancel(id: string, reason?: string): Promise<CancelAnswer>;
  cancel(query: JobQuery, reason?: string): Promise<Readonly<Record<CancelAnswer, number>>>;
  async cancel(
    target: string | JobQuery,
    reason?: string,
  ): Promise<CancelAnswer | Readonly<Record<CancelAnswer, number>>> {
    if (reason !== undefined && typeof reason !== "string")
      throw new MillraceError("invalid-option", "cancel: the reason must be a text.");
    const cancelOne = async (record: JobRecord): Promise<CancelAnswer> => {
      const answer = await this.#changeAsRead(record, ({ policy, attempts, cancelAsked }) =>
        cancelChanges({ policy: this.#engine.readPolicy(policy), attempts, cancelAsked }, reason),
      );
      if (answer.kind === "ok") return answer.state === "cancelled" ? "cancelled" : "signalled";
      return answer.kind === "gone" ? "not-found" : "finished";
    };
    if (typeof target === "string") {
      const record = await this.#engine.reads.add(target);
      return record === null ? "not-found" : cancelOne(record);
    }
    const counts: Record<CancelAnswer, number> = { cancelled: 0, signalled: 0, finished: 0, "not-found": 0 };
    for (const answer of await this.#each(overStates(target, liveStates), cancelOne)) counts[answer] += 1;
    return counts;
  }

  /** Asks for a replay of finished jobs: of one by id, or of all that match (by default the failed ones). */
  async retry(target: string | JobQuery, options: RetryJobOptions = {}): Promise<number> {
    checkOptions(options, "retry", ["delay", "runAt", "resetAttempts", "input", "perSecond"]);
    const { perSecond } = options;
    const resetsAttempts = checkBoolean(options.resetAttempts ?? true, "retry: resetAttempts");
    if (perSecond !== undefined && !(perSecond >= 0.001 && perSecond <= 1_000_000))
      throw new MillraceError("invalid-option", "retry: perSecond must be a number from 0.001 to 1000000.");
    const when = readWhen(options, "retry");
    const edit = this.#editOf(options);
    const { strideMs } = this.#engine.settings;
    let position = 0;
    const retryOne = async (record: JobRecord): Promise<boolean> => {
      const due = spread(when, perSecond === undefined ? 0 : Math.floor((position++ * 1000) / perSecond));
      const policy = this.#engine.readPolicy(record.policy);
      const answer = await this.#change(record.id, [
        replayChange(policy, { due, resetsAttempts, strideMs, ...(edit === undefined ? {} : { edit }) }),
      ]);
      if (typeof target === "string") refuse(answer, record.id);
      return answer.kind === "ok";
    };
    if (typeof target === "string") return Number(await retryOne(await this.#mustRead(target)));
    return (await this.#each(overStates(target, ["failed"]), retryOne)).filter(Boolean).length;
  }

  /** A waiting job starts as soon as a worker is free, if you like with another input. */
  runNow(id: string, options: { input?: unknown } = {}): Promise<void> {
    checkOptions(options, "runNow", ["input"]);
    return this.#reschedule(id, { inMs: 0 }, this.#editOf(options));
  }

  reschedule(id: string, when: WhenOptions): Promise<void> {
    const given = checkOptions(when, "reschedule", ["delay", "runAt"]);
    if (given["delay"] === undefined && given["runAt"] === undefined)
      throw new MillraceError(
        "invalid-option",
        "reschedule: give delay or runAt; runNow() starts it at once.",
      );
    return this.#reschedule(id, readWhen(when, "reschedule"), undefined);
  }

  /** Changes input, priority or headers of a job that has not started. */
  async edit(id: string, changes: EditJobOptions): Promise<void> {
    checkOptions(changes, "edit", ["input", "priority", "headers"]);
    const { input: _input, ...rest } = changes;
    const { policy, headers } = readEnqueueOptions(rest, "edit");
    const { level } = policy;
    const input = this.#editOf(changes);
    const answer = await this.#changeAsRead(await this.#mustRead(id), (record) => {
      const edit: Edit = {
        ...input,
        ...(level === undefined ? {} : { policy: writePolicy({ ...parsePolicy(record.policy), level }) }),
        ...(headers === undefined ? {} : { meta: writeMeta({ ...readMeta(record.meta), headers }) }),
      };
      return [editChange(edit, level ?? null, this.#engine.settings.strideMs)];
    });
    refuse(answer, id);
  }

  /** Takes a running job away from its worker; it is claimable again at once. */
  async revoke(id: string): Promise<void> {
    refuse(await this.#change(id, [revokeChange]), id);
  }

  /** Takes a job that is not running out of the store, its history included; only the event `removed` tells of it. */
  async delete(id: string): Promise<void> {
    refuse(await this.#change(id, [removeChange]), id);
  }

  /** Deletes all jobs that match and are not running: empties a queue, or clears its history. @returns how many. */
  async purge(target: JobQuery): Promise<number> {
    const query = overStates(target, removeChange.states);
    const remove = async (record: JobRecord): Promise<boolean> =>
      (await this.#change(record.id, [removeChange])).kind === "ok";
    const removed = await this.#each(query, remove);
    return removed.filter(Boolean).length;
  }

  async #reschedule(id: string, due: Due, edit: Edit | undefined): Promise<void> {
    const answer = await this.#changeAsRead(await this.#mustRead(id), (record) => {
      const policy = this.#engine.readPolicy(record.policy);
      const waiting = { policy, countsAttempt: record.countsAttempt, hasStarted: record.fence > 0 };
      return [rescheduleChange(waiting, due, this.#engine.settings.strideMs, edit)];
    });
    refuse(answer, id);
  }

  /**
   * Makes a change that repeats parts of what was read, guarded by the rev of that reading; a job that moved on
   * meanwhile is read again.
   */
  async #changeAsRead(
    first: JobRecord,
    make: (record: JobRecord) => readonly OperatorChange[],
  ): Promise<ChangeAnswer> {
    let record: JobRecord | null = first;
    for (let tries = 1; record !== null; tries++) {
      const { id, rev }: JobRecord = record;
      const changes = make(record);
      const cases = changes.map(({ states, next, attempts = null }) => ({
        guard: { states, rev },
        next,
        attempts,
      }));
      const answer = await this.#engine.changes.add({ id, cases });
      const isAgain =
        answer.kind === "changed" && changes.some(({ states }) => states.includes(answer.state));
      if (!isAgain || tries === triesMax) return answer;
      record = await this.#engine.reads.add(id);
    }
    return { kind: "gone" };
  }

  #editOf(options: { input?: unknown }): Edit | undefined {
    return "input" in options
      ? { input: this.#engine.settings.coder.encode(options.input, "input") }
      : undefined;
  }

  async #mustRead(id: string): Promise<JobRecord> {
    const record = await this.#engine.reads.add(id);
    if (record === null) throw new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
    return record;
  }

  #change(id: string, changes: readonly OperatorChange[]): Promise<ChangeAnswer> {
    return this.#engine.changes.add({
      id,
      cases: changes.map(({ states, next }) => ({ guard: { states }, next })),
    });
  }

  /** The line that the store itself adds where lines were dropped is a sentence and no JSON. */
  #readLine(body: string): { readonly level: string; readonly message: string; readonly fields?: unknown } {
    try {
      return this.#engine.settings.coder.decode(body) as { level: string; message: string };
    } catch {
      return { level: "warn", message: body };
    }
  }

  async *#records(query: JobQuery): AsyncGenerator<JobRecord, void, undefined> {
    const filter = readFilter(query);
    let cursor: string | null = null;
    let missing: readonly number[] | undefined;
    do {
      const page: Awaited<ReturnType<Engine["store"]["findJobs"]>> = await this.#engine.store.findJobs({
        filter,
        max: pageMax,
        scanMax,
        cursor,
      });
      yield* page.jobs;
      cursor = page.cursor;
      missing = page.missing;
    } while (cursor !== null);
    if (missing !== undefined)
      throw new MillraceError(
        "store-unavailable",
        `Partition ${missing.join(", ")} of the store fails: the jobs there were passed over, those of the others were not.`,
        { outcome: "unknown" },
      );
  }

  /** Acts on all jobs that match, page by page, each page in one batch. */
  async #each<Answer>(query: JobQuery, act: (record: JobRecord) => Promise<Answer>): Promise<Answer[]> {
    const answers: Answer[] = [];
    let page: Promise<Answer>[] = [];
    try {
      for await (const record of this.#records(query)) {
        page.push(act(record));
        if (page.length < pageMax) continue;
        answers.push(...(await Promise.all(page)));
        page = [];
      }
    } catch (error) {
      await Promise.allSettled(page);
      throw error;
    }
    return answers.concat(await Promise.all(page));
  }
}

function readWhen({ delay, runAt }: WhenOptions, what: string): Due {
  return (
    readDue(
      { ...(delay === undefined ? {} : { delay }), ...(runAt === undefined ? {} : { runAt }) },
      what,
    ) ?? { inMs: 0 }
  );
}

function spread(due: Due, byMs: number): Due {
  return "at" in due ? { at: due.at + byMs } : { inMs: due.inMs + byMs };
}

function refuse(answer: ChangeAnswer, id: string): void {
  switch (answer.kind) {
    case "ok":
      return;
    case "gone":
      throw new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
    case "key-held":
      throw new MillraceError(
        "key-held",
        `The unique key of ${JSON.stringify(id)} is held by ${JSON.stringify(answer.by)}.`,
      );
    case "changed":
      throw new MillraceError(
        "job-changed",
        `The job ${JSON.stringify(id)} is ${answer.state}${isTerminal(answer.state) ? " already" : ""}; this is not possible then.`,
      );
  }
}
