/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing; a repair means a
 * bug or a hand in the file, and is counted by kind so that somebody looks.
 *
 *  cursor   jobs:<seq> -> unique:<key> -> tags:<tag, seq> -> trail:<seq> -> tallies -> null
 */
import { stateCodes } from "../../model/job-state.ts";
import type { AuditAnswer } from "../../store/operations.ts";
import { presentTimerAt } from "./clock.ts";
import type { Step } from "./step.ts";

export function auditIndexes(
  step: Step,
  request: { readonly cursor: string | null; readonly max: number },
): AuditAnswer {
  const cursor = request.cursor ?? "jobs:0";
  const phase = cursor.split(":", 1)[0] as string;
  const rest = cursor.slice(phase.length + 1);
  switch (phase) {
    case "jobs":
      return auditTimers(step, Number(rest), request.max);
    case "unique":
      return auditKeys(step, rest, request.max);
    case "tags":
      return auditTags(step, rest, request.max);
    case "trail":
      return auditTrail(step, Number(rest), request.max);
    default:
      return auditTallies(step);
  }
}

/** Inputs: seq, limit. Answer: how many rows, and the last seq. */
const readRange = `SELECT count(*), max(seq) FROM (SELECT seq FROM millrace_job WHERE seq > ? ORDER BY seq LIMIT ?)`;
/** Inputs: first and last seq. Guard: the timer is not the earliest clock. */
const repairTimers = `UPDATE millrace_job SET timer_at = ${presentTimerAt} WHERE seq > ? AND seq <= ? AND timer_at IS NOT ${presentTimerAt}`;

function auditTimers({ statements }: Step, after: number, max: number): AuditAnswer {
  const [checked, last] = statements(readRange).get(after, max) as [count: number, last: number | null];
  const changes = last === null ? 0 : Number(statements(repairTimers).run(after, last).changes);
  return {
    checked,
    repaired: repairs("timer", changes),
    cursor: checked < max || last === null ? "unique:" : `jobs:${last}`,
  };
}

/** Inputs: key, limit. */
const readKeys = "SELECT key FROM millrace_unique WHERE key > ? ORDER BY key LIMIT ?";
/** Input: key. Guard: held by a job, not by time, and no live job is there. */
const repairKey = `DELETE FROM millrace_unique WHERE key = ? AND held_until IS NULL AND seq NOT IN (SELECT seq FROM millrace_job)`;

function auditKeys({ statements }: Step, after: string, max: number): AuditAnswer {
  const keys = statements(readKeys).all(after, max) as [key: string][];
  let changes = 0;
  for (const [key] of keys) changes += Number(statements(repairKey).run(key).changes);
  const last = keys.at(-1)?.[0];
  return {
    checked: keys.length,
    repaired: repairs("unique", changes),
    cursor: keys.length < max || last === undefined ? "tags:" : `unique:${last}`,
  };
}

/** Inputs: tag, seq, limit. Answer: the next entries. */
const readTags = "SELECT tag, seq FROM millrace_tag WHERE (tag, seq) > (?, ?) ORDER BY tag, seq LIMIT ?";
/** Inputs: tag and seq to go on after, tag and seq of the last. Guard: the job is kept nowhere. */
const repairTags = `DELETE FROM millrace_tag WHERE (tag, seq) > (?, ?) AND (tag, seq) <= (?, ?) AND seq NOT IN (SELECT seq FROM millrace_spec)`;

function auditTags({ statements }: Step, rest: string, max: number): AuditAnswer {
  const after = (rest === "" ? ["", 0] : JSON.parse(rest)) as [tag: string, seq: number];
  const entries = statements(readTags).all(...after, max) as [tag: string, seq: number][];
  const last = entries.at(-1);
  const changes = last === undefined ? 0 : Number(statements(repairTags).run(...after, ...last).changes);
  const isEnd = entries.length < max || last === undefined;
  return {
    checked: entries.length,
    repaired: repairs("tag", changes),
    cursor: isEnd ? "trail:0" : `tags:${JSON.stringify(last)}`,
  };
}

/** Inputs: seq, limit. Answer: how many lines, and the last seq among them. */
const readLines =
  "SELECT count(*), max(seq) FROM (SELECT seq FROM millrace_trail WHERE seq > ? ORDER BY seq LIMIT ?)";
/** Inputs: seq to go on after, last seq. Guard: the job is kept nowhere. */
const repairLines =
  "DELETE FROM millrace_trail WHERE seq > ? AND seq <= ? AND seq NOT IN (SELECT seq FROM millrace_spec)";

function auditTrail({ statements }: Step, after: number, max: number): AuditAnswer {
  const [checked, last] = statements(readLines).get(after, max) as [count: number, last: number | null];
  const changes = last === null ? 0 : Number(statements(repairLines).run(after, last).changes);
  return {
    checked,
    repaired: repairs("trail", changes),
    cursor: checked < max || last === null ? "tallies:" : `trail:${last}`,
  };
}

/** No input. Answer: route, state and how many there really are, where the tally says otherwise. */
const wrongTallies = `WITH real (route, state, count) AS (
    SELECT route, state, count(*) FROM millrace_job GROUP BY route, state
    UNION ALL SELECT route, state, count(*) FROM millrace_history GROUP BY route, state)
  SELECT route, state, count FROM real WHERE count IS NOT (SELECT count FROM millrace_tally t WHERE t.route = real.route AND t.state = real.state)
  UNION ALL SELECT route, state, 0 FROM millrace_tally t WHERE count <> 0
    AND NOT EXISTS (SELECT 1 FROM real WHERE real.route = t.route AND real.state = t.state)`;
/** Inputs: route, state, count. */
const setTally = "INSERT OR REPLACE INTO millrace_tally (route, state, count) VALUES (?, ?, ?)";

/** No input. Answer: how many rows there are, and how many the tallies say, live and finished. */
const readSums = `SELECT (SELECT count(*) FROM millrace_job), (SELECT count(*) FROM millrace_history),
  (SELECT ifnull(sum(count), 0) FROM millrace_tally WHERE state < ${stateCodes.completed}),
  (SELECT ifnull(sum(count), 0) FROM millrace_tally WHERE state >= ${stateCodes.completed})`;

/** Up to here a recount by route and state is cheap. */
const recountRowsMax = 50_000;

/**
 * A recount of a million rows by route and state sorts them, for half a second in which nobody else gets an answer; counting them takes
 * a few milliseconds. So a large store is recounted only when its sums are wrong.
 */
function auditTallies({ statements }: Step): AuditAnswer {
  const [live, finished, liveTold, finishedTold] = statements(readSums).get() as [
    number,
    number,
    number,
    number,
  ];
  const isRight = live === liveTold && finished === finishedTold;
  if (isRight && live + finished > recountRowsMax)
    return { checked: live + finished, repaired: {}, cursor: null };
  const rows = statements(wrongTallies).all() as [route: number, state: number, count: number][];
  for (const row of rows) statements(setTally).run(...row);
  return { checked: live + finished, repaired: repairs("tally", rows.length), cursor: null };
}

function repairs(kind: string, changes: number): Record<string, number> {
  return changes === 0 ? {} : { [kind]: changes };
}
