/**
 * Submit: the first step of a job's life. A unit is written whole or not at all; one refused unit leaves the others alone.
 *
 * Jobs with a minted id and no unique key cannot be refused: they are collected over all units of the call and written with few
 * statements. The rest is looked up one by one, in order, so that jobs of one unit may also meet each other.
 */
import { stateCodes } from "../../model/job-state.ts";
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { insertRows } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { dueAtOf, timerAtOf, waitingCode } from "./clock.ts";
import { putDoc } from "./docs.ts";
import { submitKeyed } from "./submit-keyed.ts";
import { routeNumber } from "./route-book.ts";
import { count, hintDue, mark, takeBack, tell } from "./step.ts";
import type { Step } from "./step.ts";
import { holdCode, holdsOf } from "./unique.ts";

export type UnitAnswer = SubmitAnswer;

export function submit(step: Step, units: readonly SubmitUnit[]): SubmitAnswer[] {
  const insert = openInsert(step);
  const answers = units.map((unit) => {
    if (!canBeRefusedLate(unit)) return submitUnit(step, insert, unit);
    insert.flush();
    return allOrNothing(step, () => submitUnit(step, insert, unit), insert.flush);
  });
  insert.flush();
  return answers;
}

/** A single look-up comes before any write of its unit and needs no savepoint. */
function canBeRefusedLate(unit: SubmitUnit): boolean {
  if (unit.docs !== undefined && unit.docs.length > 0) return true;
  return unit.jobs.length > 1 && unit.jobs.some((job) => job.digest !== null);
}

/** Runs a unit that writes before it knows whether all of it holds. */
export function allOrNothing<A extends { readonly kind: string }>(
  step: Step,
  run: () => A,
  flush: () => void,
): A {
  const { statements, turn } = step;
  const before = mark(step);
  statements("SAVEPOINT millrace_unit").run();
  const answer = run();
  flush();
  if (answer.kind !== "ok") {
    statements("ROLLBACK TO millrace_unit").run();
    takeBack(step, before);
    turn.lastSeq = null;
    turn.routes.numbers.clear();
  }
  statements("RELEASE millrace_unit").run();
  return answer;
}

export function submitUnit(step: Step, insert: Insert, unit: SubmitUnit): SubmitAnswer {
  const ids: string[] = [];
  const hows: SubmitHow[] = [];
  for (const job of unit.jobs) {
    if (job.digest === null && job.unique === null && unit.isRepeat !== true) {
      insert.add(job);
      ids.push(job.id);
      hows.push("created");
      continue;
    }
    insert.flush();
    const answer = submitKeyed(step, insert, job, unit.isRepeat === true);
    if (answer.kind === "refused") return answer;
    ids.push(answer.id);
    hows.push(answer.how);
  }
  if (unit.isRepeat === true && hasHappened(unit, hows)) return { kind: "ok", ids, hows };
  for (const put of unit.docs ?? []) {
    if (putDoc(step, put).kind === "changed") return { kind: "refused", reason: "doc-changed", id: put.id };
  }
  return { kind: "ok", ids, hows };
}

/** A unit one of whose minted ids is known has happened whole, so its documents are not put again. */
function hasHappened(unit: SubmitUnit, hows: readonly SubmitHow[]): boolean {
  return unit.jobs.some((job, index) => job.digest === null && hows[index] === "existing");
}

/** Collects new jobs of one call. What was added is in the store only after `flush`. */
export interface Insert {
  /** Answers the seq of the new job. */
  add(job: NewJob): number;
  readonly flush: () => void;
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
  let specs: SqlValue[] = [];
  let jobs: SqlValue[] = [];
  const flush = (): void => {
    if (specs.length === 0) return;
    const [newSpecs, newJobs] = [specs, jobs];
    specs = [];
    jobs = [];
    insertRows(statements, addSpec, specRow, newSpecs, specWidth);
    insertRows(statements, addJob, jobRow, newJobs, jobWidth);
  };
  const add = (job: NewJob): number => {
    const seq = (turn.lastSeq ?? readLastSeq(statements)) + 1;
    turn.lastSeq = seq;
    const route = routeNumber(statements, turn.routes, job.queue, job.name);
    const dueAt = dueAtOf(job.due, now);
    const state = waitingCode(dueAt, now);
    const deadlineAt = job.deadline === null ? null : dueAtOf(job.deadline, now);
    const ttlAt = job.ttlMs === null ? null : dueAt + job.ttlMs;
    const timerAt = timerAtOf(state, { dueAt, deadlineAt, ttlAt });
    const hold = job.unique === null ? null : holdCode(job.unique.hold);
    const tags = tagsText(job);
    // prettier-ignore
    specs.push(seq, job.id, now, job.digest, job.unique?.key ?? null, hold, job.policy, job.meta, tags, job.input);
    jobs.push(
      seq,
      job.id,
      route,
      state,
      job.rankBase + job.rankSlope * dueAt,
      dueAt,
      timerAt,
      deadlineAt,
      ttlAt,
      holdsOf(hold),
    );
    addTags(statements, seq, job.tags);
    count(step, route, state, 1);
    hintDue(step, timerAt);
    const extra = state === stateCodes.scheduled ? dueAt : null;
    tell(step, { kind: "submitted", id: job.id, rev: 1, route, state, attempt: 0, extra });
    return seq;
  };
  return { add, flush };
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
