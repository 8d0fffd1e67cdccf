/**
 * Writing new jobs: rule R1 on each, then all of them with few statements. Collected over the units of a call; what was added is in the
 * store only after `flush`.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { NewJob } from "../../store/records.ts";
import { dueAtOf, timerAtOf, waitingCode } from "./clock.ts";
import { insertRows } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { isPlain, openAlikeInsert } from "./insert-alike.ts";
import type { Placed } from "./insert-alike.ts";
import { routeNumber } from "./route-book.ts";
import { count, hintDue, tell } from "./step.ts";
import type { Step } from "./step.ts";
import { holdCode, holdsOf } from "./unique.ts";

export interface Insert {
  /** Answers the seq of the new job. */
  add(job: NewJob): number;
  readonly flush: () => void;
  /**
   * The digest of a job that was added but is not in the store yet; undefined for an unknown id. Asking begins the book of ids, so jobs
   * that nobody asks for pay nothing.
   */
  pendingDigest(id: string): string | null | undefined;
}

const specWidth = 10;
const specRow = `(${Array.from({ length: specWidth }, () => "?").join(",")})`;
const addSpec = `INSERT INTO millrace_spec (seq, id, created_at, digest, unique_key, unique_hold, policy, meta, tags, input) VALUES`;
const jobWidth = 10;
const jobRow = `(?,?,?,?,?,?,?,?,?,?,0,1,0,1,0)`;
const addJob = `INSERT INTO millrace_job (seq, id, route, state, rank, due_at, timer_at, deadline_at, ttl_at, holds,
  attempt, counts_attempt, fence, rev, cancel_asked) VALUES`;
/** Inputs: tag, seq. */
const addTag = "INSERT OR IGNORE INTO millrace_tag (tag, seq) VALUES (?, ?)";
/** Answer: the last seq ever given. */
const lastSeqGiven = "SELECT seq FROM sqlite_sequence WHERE name = 'millrace_spec'";

export function openInsert(step: Step): Insert {
  const { statements, turn, now } = step;
  const alike = openAlikeInsert(statements, now);
  let specs: SqlValue[] = [];
  let jobs: SqlValue[] = [];
  let pending: Map<string, string | null> | null = null;
  const flush = (): void => {
    pending?.clear();
    alike.flush();
    if (specs.length === 0) return;
    const [newSpecs, newJobs] = [specs, jobs];
    specs = [];
    jobs = [];
    insertRows(statements, addSpec, specRow, newSpecs, specWidth);
    insertRows(statements, addJob, jobRow, newJobs, jobWidth);
  };
  const addSpecial = (job: NewJob, placed: Placed): void => {
    const { seq, route, state, rank, dueAt, timerAt, deadlineAt, ttlAt } = placed;
    const hold = job.unique === null ? null : holdCode(job.unique.hold);
    const tags = tagsText(job);
    // prettier-ignore
    specs.push(seq, job.id, now, job.digest, job.unique?.key ?? null, hold, job.policy, job.meta, tags, job.input);
    jobs.push(seq, job.id, route, state, rank, dueAt, timerAt, deadlineAt, ttlAt, holdsOf(hold));
    addTags(statements, seq, job.tags);
  };
  const add = (job: NewJob): number => {
    const seq = (turn.lastSeq ?? readLastSeq(statements)) + 1;
    turn.lastSeq = seq;
    const placed = place(job, seq, routeNumber(statements, turn.routes, job.queue, job.name), now);
    if (isPlain(job)) alike.add(job, placed);
    else addSpecial(job, placed);
    pending?.set(job.id, job.digest);
    const { route, state, dueAt, timerAt } = placed;
    count(step, route, state, 1);
    hintDue(step, timerAt);
    const extra = state === stateCodes.scheduled ? dueAt : null;
    tell(step, { kind: "submitted", id: job.id, rev: 1, route, state, attempt: 0, extra });
    return seq;
  };
  const pendingDigest = (id: string): string | null | undefined => {
    if (pending === null) {
      flush();
      pending = new Map();
    }
    return pending.get(id);
  };
  return { add, flush, pendingDigest };
}

/** Rule R1. */
function place(job: NewJob, seq: number, route: number, now: number): Placed {
  const dueAt = dueAtOf(job.due, now);
  const state = waitingCode(dueAt, now);
  const deadlineAt = job.deadline === null ? null : dueAtOf(job.deadline, now);
  const ttlAt = job.ttlMs === null ? null : dueAt + job.ttlMs;
  const timerAt = timerAtOf(state, { dueAt, deadlineAt, ttlAt });
  const rank = job.rankBase + job.rankSlope * dueAt;
  return { seq, route, state, rank, dueAt, timerAt, deadlineAt, ttlAt };
}

export function tagsText(job: NewJob): string | null {
  return job.tags === null || job.tags.length === 0 ? null : JSON.stringify(job.tags);
}

export function addTags(statements: Statements, seq: number, tags: readonly string[] | null): void {
  for (const tag of tags ?? []) statements(addTag).run(tag, seq);
}

function readLastSeq(statements: Statements): number {
  const row = statements(lastSeqGiven).get() as [seq: number] | undefined;
  return row === undefined ? 0 : row[0];
}
