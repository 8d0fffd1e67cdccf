/**
 * Reads jobs and operates on them, one by id or many by filter. Every action reads the job, lets the model compute the
 * change, and writes it under a guard. Cancel, retry and delete answer alike: for one job what became of it, for many
 * how often each answer occurred.
 */
import { keepTexts } from "../../codec/sealed-texts.ts";
import { callKeys, checkCallOptions, withinLimit } from "../../engine/calls/call-limit.ts";
import type { CallOptions } from "../../engine/calls/call-limit.ts";
import { asOneCall } from "../../engine/calls/one-call.ts";
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob, InputOf, ResultOf } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { readDue, readEnqueueOptions } from "../../engine/submit/job-options.ts";
import { readMeta, writeMeta } from "../../model/job/job-meta.ts";
import { parsePolicy, writePolicy } from "../../model/job/job-policy.ts";
import type { Due, Edit } from "../../model/job/change.ts";
import type { Duration } from "../../model/duration.ts";
import { hasMark } from "../../model/durable/durable-marks.ts";
import { marksAsRead, mayDelete } from "../../model/durable/end-run.ts";
import { MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { checkName } from "../../model/name.ts";
import {
  editChange,
  deleteChange,
  replayChange,
  rescheduleChange,
  revokeChanges,
} from "../../model/job/operate.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { rootOf } from "../../model/flow/flow-meta.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import { rankingOf } from "../../model/routing/rank.ts";
import type { Priority } from "../../model/routing/rank.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { JobRecord } from "../../store/records.ts";
import { cancelJobs } from "./cancel-jobs.ts";
import type { Answers, CancelAnswer, CancelOptions } from "./cancel-jobs.ts";
import { checkIsJob } from "./check-is-job.ts";
import { countJobs } from "./count-jobs.ts";
import type { QueueCounts } from "./count-jobs.ts";
import { deleteUnreadableJob } from "../workers/quarantined.ts";
import {
  isFlow,
  isOfFlow,
  keepsPriority,
  MemberReplays,
  deleteChangeOf,
  deleteMembersNow,
} from "../flows/flow-jobs.ts";
import { JobChanges, isMade, pageMax, refuse, scanMax } from "./job-changes.ts";
import { NewInput } from "./new-input.ts";
import { overStates, readCursor, readFilter } from "./job-filter.ts";
import type { JobQuery } from "./job-filter.ts";
import { viewJobs } from "./job-view.ts";
import type { JobView } from "./job-view.ts";

type JobsNeeds = Needs<
  | "store"
  | "platform"
  | "giveUpMs"
  | "coder"
  | "strideMs"
  | "log"
  | "ids"
  | "retention"
  | "changes"
  | "reads"
  | "queuePolicies"
  | "policies"
  | "knownJobs"
>;

/**
 * `unfinished`: it has not ended, or is a flow in which nothing failed, so there is nothing to replay. `key-held`:
 * another job has its unique key. `flow-member`: a member is replayed with its flow, which takes no other input, time
 * or attempts.
 */
export type RetryAnswer = "retried" | "unfinished" | "key-held" | "flow-member" | "not-found";
/**
 * `deleting`: it is a flow that is gone, and some of its members are left to the duties. `running`: it runs, or is a
 * flow that has not ended. `flow-member`: it is deleted with its flow. `has-undo`: it is a durable run that has steps
 * to undo; cancel it, or delete it with `force`.
 */
export type DeleteAnswer = "deleted" | "deleting" | "running" | "flow-member" | "has-undo" | "not-found";
export interface WhenOptions {
  delay?: Duration;
  runAt?: Date | number;
}

export interface RetryJobOptions extends WhenOptions, CallOptions {
  /** Whether the replay opens a new round of attempts (default) or allows only one more attempt. */
  resetAttempts?: boolean;
  /**
   * Of a durable job: the run begins anew instead of going on where it failed. A run that had completed, whose steps
   * were undone, or that gets another input always begins anew.
   */
  fromStart?: boolean;
  /** Replaces the input. The schema of the job checks it, if this process has used the job's definition. */
  input?: unknown;
  /** For a filter: how many jobs come back per second; their due times are spread accordingly. */
  perSecond?: number;
}

export interface DeleteOptions extends CallOptions {
  /** Also durable runs that have steps to undo: their undos never run. */
  force?: boolean;
  /**
   * For a filter: also flows that have ended and match, and those of the members that match, each with all of its
   * members. Each flow counts once, its members do not.
   *
   * @example
   *   await mill.jobs.delete({ tag: "tenant:42" }, { wholeFlows: true });
   */
  wholeFlows?: boolean;
}

export interface RunNowOptions extends CallOptions {
  /** Replaces the input. The schema of the job checks it, if this process has used the job's definition. */
  input?: unknown;
  /** A payload for the handler, beside the input: `context.attached`, until the next wake attaches another one. */
  attach?: unknown;
}

/** `not-scheduled`: it is ready already, runs, waits for something else than a time, or has ended. Nothing changed. */
export type RunNowAnswer = "woken" | "not-scheduled" | "not-found";

export interface EditJobOptions {
  /** Replaces the input. The schema of the job checks it, if this process has used the job's definition. */
  input?: unknown;
  priority?: Priority;
  /** Replaces the headers that it was enqueued with; its trace context stays. */
  headers?: Readonly<Record<string, string>>;
  /** Replaces its tags; an empty list takes all of them away. */
  tags?: readonly string[];
}

export type ViewOf<Job extends AnyJob> = JobView<InputOf<Job>, ResultOf<Job>>;

export interface JobPage<View extends JobView = JobView> {
  readonly jobs: readonly View[];
  readonly cursor: string | null;
  /** The partitions of the store that failed, so that their jobs are not on this page; left out if there are none. */
  readonly missing?: readonly number[];
}

export interface PageOptions {
  /** The size of a page; 50 by default. */
  limit?: number;
  cursor?: string | null;
}

export interface LogLine {
  /** Its place among the lines of the job, from 1. */
  readonly number: number;
  readonly at: Date;
  readonly level: string;
  readonly message: string;
  readonly fields?: unknown;
}

const retryAnswers = [
  ...["retried", "unfinished", "key-held", "flow-member", "not-found"],
] as const satisfies RetryAnswer[];
const deleteAnswers = [
  ...["deleted", "deleting", "running", "flow-member", "has-undo", "not-found"],
] as const satisfies DeleteAnswer[];

/** One call of a caller (engine/calls/one-call.ts). */
interface JobCall {
  readonly needs: JobsNeeds;
  readonly changes: JobChanges;
  readonly isOver: () => boolean;
}

export class Jobs {
  readonly #needs: JobsNeeds;
  readonly #changes: JobChanges;

  constructor(needs: JobsNeeds) {
    this.#needs = needs;
    this.#changes = new JobChanges(needs);
  }

  /** Reads one job. With its definition, input and result have their types. */
  get(id: string, limit?: CallOptions): Promise<JobView | null>;
  get<Job extends AnyJob>(job: Job, id: string, limit?: CallOptions): Promise<ViewOf<Job> | null>;
  async get(...given: [string, CallOptions?] | [AnyJob, string, CallOptions?]): Promise<JobView | null> {
    const [job, id, limit] = isTyped(given) ? given : [null, ...given];
    if (job !== null) checkDefinition(job, "get");
    checkName(id, "id");
    checkCallOptions(limit, "get");
    return this.#read("get", limit, async () => {
      const record = await this.#changes.read(id);
      if (record === null || isFlow(record)) return null;
      checkIsJob(record, job?.name ?? null);
      return (await viewJobs(this.#needs, [record]))[0] as JobView;
    });
  }

  /** One page, newest first. If a page is empty but has a cursor, nothing was found yet: go on with the cursor. */
  list<Job extends AnyJob>(
    query: JobQuery & { job: Job } & PageOptions,
    limit?: CallOptions,
  ): Promise<JobPage<ViewOf<Job>>>;
  list(query?: JobQuery & PageOptions, limit?: CallOptions): Promise<JobPage>;
  async list(query: JobQuery & PageOptions = {}, call?: CallOptions): Promise<JobPage> {
    if (typeof query !== "object" || query === null)
      throw new MillraceError("invalid-option", "list: the query must be an object.");
    const { limit = 50, cursor: from = null, ...filter } = query;
    const max = checkWhole(limit, "list: limit", 1, pageMax);
    const cursor = readCursor(from, this.#needs.store.partitions ?? 1, "list");
    const request = { filter: readFilter(filter), max, scanMax, cursor };
    checkCallOptions(call, "list");
    return this.#read("list", call, async () => {
      const { jobs: found, cursor: next, missing } = await this.#needs.store.findJobs(request);
      const jobs = await viewJobs(this.#needs, withoutHidden(found));
      return { jobs, cursor: next, ...(missing === undefined ? {} : { missing }) };
    });
  }

  /**
   * All jobs that match, read page by page. If a partition of the store fails, this throws after the jobs of the
   * others.
   */
  find<Job extends AnyJob>(query: JobQuery & { job: Job }): AsyncGenerator<ViewOf<Job>, void, undefined>;
  find(query?: JobQuery): AsyncGenerator<JobView, void, undefined>;
  async *find(query: JobQuery = {}): AsyncGenerator<JobView, void, undefined> {
    for await (const page of this.#changes.pages(query)) yield* await viewJobs(this.#needs, page);
  }

  /**
   * Exact counts per queue and state. If a partition of the store fails, its jobs are left out and `describe` warns of
   * it. `held` counts the ready jobs that a pause, a limit, their queue or a missing capability holds back.
   */
  async counts(limit?: CallOptions): Promise<Readonly<Record<string, QueueCounts>>> {
    checkCallOptions(limit, "counts");
    return this.#read("counts", limit, () => countJobs(this.#needs.store));
  }

  /** A job's log lines, oldest first; with `after`, only those after the line of that number. */
  async logs(id: string, options: { after?: number } & CallOptions = {}): Promise<readonly LogLine[]> {
    checkName(id, "id");
    checkOptions(options, "logs", ["after", ...callKeys]);
    const after = checkWhole(options.after ?? 0, "logs: after", 0, Number.MAX_SAFE_INTEGER);
    const request = { id, after, max: storeLimits.logLinesPerJobMax };
    const { lines } = await this.#read("logs", options, () => this.#needs.store.readLogs(request));
    return lines.map(({ number, at, body }) => ({ number, at: new Date(at), ...this.#readLine(body) }));
  }

  /** Cancels one job by id, or all that match and have not ended. A text is short for `{ reason }`. */
  cancel(id: string, options?: string | CancelOptions): Promise<CancelAnswer>;
  cancel(query: JobQuery, options?: string | CancelOptions): Promise<Answers<CancelAnswer>>;
  cancel(
    target: string | JobQuery,
    options: string | CancelOptions = {},
  ): Promise<CancelAnswer | Answers<CancelAnswer>> {
    const given: CancelOptions = typeof options === "string" ? { reason: options } : options;
    return this.#act("cancel", target, given, ({ needs, changes, isOver }) =>
      cancelJobs(needs, changes, target, given, isOver),
    );
  }

  /**
   * Replays finished jobs: one by id, or all that match (by default the failed ones). The replay of a member opens its
   * flow again (`mill.flows.retry`); the replay of a flow runs the nodes that failed in it.
   */
  retry(id: string, options?: RetryJobOptions): Promise<RetryAnswer>;
  retry(query: JobQuery, options?: RetryJobOptions): Promise<Answers<RetryAnswer>>;
  retry(
    target: string | JobQuery,
    options: RetryJobOptions = {},
  ): Promise<RetryAnswer | Answers<RetryAnswer>> {
    return this.#act("retry", target, options, async ({ needs, changes, isOver }) => {
      const known = ["delay", "runAt", "resetAttempts", "fromStart", "input", "perSecond", ...callKeys];
      checkOptions(options, "retry", known);
      const { perSecond } = options;
      const isFromStart = checkBoolean(options.fromStart ?? false, "retry: fromStart");
      const resetsAttempts = checkBoolean(options.resetAttempts ?? true, "retry: resetAttempts");
      if (perSecond !== undefined && !(perSecond >= 0.001 && perSecond <= 1_000_000))
        throw new MillraceError("invalid-option", "retry: perSecond must be a number from 0.001 to 1000000.");
      const when = readWhen(options, "retry");
      const input = new NewInput(this.#needs, options);
      const { edit } = input;
      const { strideMs } = this.#needs;
      const members = new MemberReplays(needs);
      // A flow brings back its member as it was, so the call may change nothing.
      const isPlain = Object.entries(options).every(
        ([key, value]) => value === undefined || (callKeys as readonly string[]).includes(key),
      );
      let position = 0;
      const retryOne = async (record: JobRecord): Promise<RetryAnswer> => {
        if (isOfFlow(record)) return isPlain ? members.retry(record) : "flow-member";
        await input.check(record);
        const due = spread(when, perSecond === undefined ? 0 : Math.floor((position++ * 1000) / perSecond));
        const answer = await changes.changeAsRead(record, (read) => [
          replayChange(
            { ...read, policy: this.#needs.policies.read(read.policy) },
            { due, resetsAttempts, strideMs, isFromStart, ...(edit === undefined ? {} : { edit }) },
          ),
        ]);
        if (isMade(answer)) return "retried";
        return answer.kind === "gone" ? "not-found" : answer.kind === "key-held" ? "key-held" : "unfinished";
      };
      if (typeof target === "string") return one(changes, target, retryOne);
      const query = overStates(target, ["failed"]);
      await input.checkFor(target);
      return changes.each(query, retryAnswers, retryOne, isOver);
    });
  }

  /**
   * Deletes one job by id, or all that match, with their history, unless they run. Empties a queue, or clears finished
   * jobs. Only the event `deleted` remains. A flow that has ended is deleted by its id with all of its members; a
   * member is never deleted alone.
   */
  delete(id: string, options?: DeleteOptions): Promise<DeleteAnswer>;
  delete(query: JobQuery, options?: DeleteOptions): Promise<Answers<DeleteAnswer>>;
  delete(
    target: string | JobQuery,
    options: DeleteOptions = {},
  ): Promise<DeleteAnswer | Answers<DeleteAnswer>> {
    return this.#act<DeleteAnswer | Answers<DeleteAnswer>>("delete", target, options, (call) => {
      const { needs, changes, isOver } = call;
      checkOptions(options, "delete", ["force", "wholeFlows", ...callKeys]);
      const isForced = checkBoolean(options.force ?? false, "delete: force");
      const isWhole = checkBoolean(options.wholeFlows ?? false, "delete: wholeFlows");
      if (isWhole && typeof target === "string")
        throw invalidOption("delete: wholeFlows is for a filter; a flow is deleted by its id.");
      const deleteOne = async (record: JobRecord): Promise<DeleteAnswer> => {
        const change = deleteChangeOf(record);
        if (change === null) return "flow-member";
        const { durable } = record;
        const run = { policy: this.#needs.policies.read(record.policy), durable };
        if (!isForced && !isTerminal(record.state) && !mayDelete(run)) return "has-undo";
        const made = run.policy.durable === null ? [change] : [{ ...change, marks: marksAsRead(durable) }];
        const answer = await changes.change(record.id, made);
        if (answer.kind !== "ok") return answer.kind === "gone" ? "not-found" : "running";
        return isFlow(record) ? deleteMembersNow(needs, record.id) : "deleted";
      };
      if (typeof target === "string") return deleteById(call, target, deleteOne);
      const query = overStates(target, deleteChange.states);
      if (!isWhole) return changes.each(query, deleteAnswers, deleteOne, isOver);
      return changes.each(query, deleteAnswers, withFlows(call, deleteOne), isOver, { hasFlows: true });
    });
  }

  /**
   * Wakes a scheduled job: it is ready at once, also if it waits for a retry or a snooze. `attach` is what its handler
   * then finds as `context.attached`.
   */
  runNow(id: string, options: RunNowOptions = {}): Promise<RunNowAnswer> {
    return this.#act("runNow", id, options, ({ changes }) => {
      checkName(id, "runNow: id");
      checkOptions(options, "runNow", ["input", "attach", ...callKeys]);
      const input = new NewInput(this.#needs, options);
      const { edit } = input;
      const attached =
        options.attach === undefined ? undefined : this.#needs.coder.encode(options.attach, "attach");
      return one(changes, id, async (record) => {
        if (isFlow(record)) return "not-found";
        await input.check(record);
        const answer = await changes.changeAsRead(record, (read) => {
          checkInputEdit(read, edit);
          const meta =
            attached === undefined ? {} : { meta: writeMeta({ ...readMeta(read.meta), attached }) };
          const whole = edit === undefined && attached === undefined ? {} : { edit: { ...edit, ...meta } };
          const { strideMs } = this.#needs;
          return [
            rescheduleChange(this.#waiting(read), { inMs: 0 }, strideMs, { ...whole, states: ["scheduled"] }),
          ];
        });
        return isMade(answer) ? "woken" : answer.kind === "gone" ? "not-found" : "not-scheduled";
      });
    });
  }

  reschedule(id: string, when: WhenOptions & CallOptions): Promise<void> {
    return this.#actOn("reschedule", id, when, async ({ changes }) => {
      const given = checkOptions(when, "reschedule", ["delay", "runAt", ...callKeys]);
      if (given["delay"] === undefined && given["runAt"] === undefined)
        throw new MillraceError(
          "invalid-option",
          "reschedule: give delay or runAt; runNow() starts it at once.",
        );
      const due = readWhen(when, "reschedule");
      const answer = await changes.changeAsRead(await changes.mustRead(id), (record) => [
        rescheduleChange(this.#waiting(record), due, this.#needs.strideMs),
      ]);
      refuse(answer, id);
    });
  }

  /**
   * Changes input, priority, headers or tags of a job that has not started.
   *
   * @example
   * await mill.jobs.edit(id, { tags: ["late"], priority: "high" });
   */
  edit(id: string, edits: EditJobOptions & CallOptions): Promise<void> {
    return this.#actOn("edit", id, edits, async ({ changes }) => {
      checkOptions(edits, "edit", ["input", "priority", "headers", "tags", ...callKeys]);
      const { priority, headers: given, tags: asked } = edits;
      const { policy, headers, tags } = readEnqueueOptions(
        {
          ...(priority === undefined ? {} : { priority }),
          ...(given === undefined ? {} : { headers: given }),
          ...(asked === undefined ? {} : { tags: asked }),
        },
        "edit",
      );
      const { level } = policy;
      const kept = headers === undefined ? undefined : keepTexts(this.#needs.coder, headers, "headers");
      const input = new NewInput(this.#needs, edits);
      const found = await changes.mustRead(id);
      await input.check(found);
      const answer = await changes.changeAsRead(found, (record) => {
        if (level !== undefined && record.state === "blocked") throw keepsPriority(id);
        checkInputEdit(record, input.edit);
        const { isReadable, order } = this.#needs.policies.read(record.policy);
        const { strideMs } = this.#needs;
        const edit: Edit = {
          ...input.edit,
          ...(level === undefined || !isReadable
            ? {}
            : { policy: writePolicy({ ...parsePolicy(record.policy), level }) }),
          ...(kept === undefined ? {} : { meta: writeMeta({ ...readMeta(record.meta), headers: kept }) }),
          ...(tags === undefined ? {} : { tags: tags.length === 0 ? null : tags }),
        };
        return [editChange(edit, level === undefined ? null : rankingOf({ level, order }, strideMs))];
      });
      refuse(answer, id);
    });
  }

  /**
   * Takes a running job from its worker, so that it can be claimed again at once. If its cancel was asked for, it ends
   * as cancelled.
   */
  revoke(id: string, limit: CallOptions = {}): Promise<void> {
    return this.#actOn("revoke", id, limit, async ({ changes }) => {
      checkCallOptions(limit, "revoke");
      const record = await changes.mustRead(id);
      const answer = await changes.changeAsRead(record, (read) =>
        revokeChanges(
          { ...read, policy: this.#needs.policies.read(read.policy, read.queue) },
          this.#needs.strideMs,
        ),
      );
      refuse(answer, id);
    });
  }

  #waiting({ policy, countsAttempt, fence }: JobRecord): Parameters<typeof rescheduleChange>[0] {
    return { policy: this.#needs.policies.read(policy), countsAttempt, hasStarted: fence > 0 };
  }

  #read<Answer>(what: string, limit: CallOptions | undefined, run: () => Promise<Answer>): Promise<Answer> {
    return withinLimit(limit, { platform: this.#needs.platform, what, isWrite: false, run });
  }

  #actOn(what: string, id: string, limit: CallOptions, act: (call: JobCall) => Promise<void>): Promise<void> {
    return this.#act(what, id, limit, (call) => {
      checkName(id, `${what}: id`);
      return act(call);
    });
  }

  /** Async, so that a refusal is always a rejection. */
  async #act<Answer>(
    what: string,
    target: string | JobQuery,
    limit: CallOptions,
    act: (call: JobCall) => Promise<Answer>,
  ): Promise<Answer> {
    if (typeof target === "string") checkName(target, `${what}: id`);
    const isLong = typeof target !== "string";
    return asOneCall(this.#needs, { what, limit, isLong }, async (needs, isOver) =>
      act({ needs, changes: new JobChanges(needs), isOver }),
    );
  }

  /** If lines were dropped, the store adds a line of its own, which is a sentence and not JSON. */
  #readLine(body: string): Omit<LogLine, "number" | "at"> {
    try {
      return this.#needs.coder.decode(body) as { level: string; message: string };
    } catch {
      return { level: "warn", message: body };
    }
  }
}

/** If no job has the id, unreadable records of that id are deleted: they are all that is left of the job. */
async function deleteById(
  { needs, changes }: JobCall,
  id: string,
  deleteOne: (record: JobRecord) => Promise<DeleteAnswer>,
): Promise<DeleteAnswer> {
  const answer = await one(changes, id, deleteOne);
  if (answer !== "not-found") return answer;
  return (await deleteUnreadableJob(needs.store, id)) ? "deleted" : answer;
}

async function one<Answer extends string>(
  changes: JobChanges,
  id: string,
  act: (record: JobRecord) => Promise<Answer>,
): Promise<Answer | "not-found"> {
  const record = await changes.read(id);
  return record === null ? "not-found" : act(record);
}

function isTyped(given: readonly unknown[]): given is [AnyJob, string, CallOptions?] {
  return typeof given[0] === "object" && given[0] !== null;
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
  return "at" in due ? { ...due, at: due.at + byMs } : { inMs: due.inMs + byMs };
}

/** The journal of a run was made from the input that its first life had. */
function checkInputEdit({ id, state, durable, fence }: JobRecord, edit: Edit | undefined): void {
  if (edit?.input === undefined || isTerminal(state)) return;
  // Before its first claim a run has nothing but signals.
  if (fence === 0 || !hasMark(durable, "hasJournal")) return;
  throw new MillraceError(
    "run-begun",
    `The run ${JSON.stringify(id)} has recorded steps of its present input: cancel it and retry it with the new input, or let its handler call step.continueWith(input).`,
  );
}

/** A flow, or the flow of a member, is deleted once; the members are not counted. */
function withFlows(
  { needs }: JobCall,
  deleteOne: (record: JobRecord) => Promise<DeleteAnswer>,
): (record: JobRecord) => Promise<DeleteAnswer | null> {
  const flows = new Set<string>();
  return async (record) => {
    if (!isOfFlow(record)) return deleteOne(record);
    const root = rootOf(record.id) ?? record.id;
    if (flows.has(root)) return null;
    flows.add(root);
    const flow = await needs.reads.add(root);
    return flow === null ? null : deleteOne(flow);
  };
}
