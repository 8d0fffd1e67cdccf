/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing;
 * a repair means a bug or a hand in the file, and is counted by kind so that somebody looks.
 *
 *  cursor   records:<seq> -> jobs:<seq> -> unique:<key> -> tags:<tag, seq> -> trail:<seq> -> tallies -> null
 */
import type { AuditAnswer } from "../../store/operations.ts";
import { seqRange, setAsideUnreadable } from "./aside.ts";
import { auditTallies, repairs } from "./audit-tallies.ts";
import { presentTimerAt } from "./clock.ts";
import { limitTo } from "./connection.ts";
import type { Step } from "./step.ts";

export function auditIndexes(
  step: Step,
  request: { readonly cursor: string | null; readonly max: number },
): AuditAnswer {
  const cursor = request.cursor ?? `records:${seqRange.after}`;
  const phase = cursor.split(":", 1)[0] as string;
  const rest = cursor.slice(phase.length + 1);
  switch (phase) {
    case "records":
      return auditRecords(step, rest, request.max);
    case "jobs":
      return auditTimers(step, Number(rest), request.max);
    case "unique":
      return auditKeys(step, rest, request.max);
    case "tags":
      return auditTags(step, rest, request.max);
    case "trail":
      return auditTrail(step, Number(rest), request.max);
    default:
      return auditTallies(step.statements);
  }
}

/** Inputs: seq as a text, limit. Answer: how many specs, and the last seq as a text. */
const readSpecs = `SELECT count(*), CAST(max(seq) AS TEXT) FROM
  (SELECT seq FROM millrace_spec WHERE seq > CAST(? AS INTEGER) ORDER BY seq ${limitTo("?")})`;

/** Records that nobody may ever meet: whatever cannot be read is set aside. */
function auditRecords(step: Step, after: string, max: number): AuditAnswer {
  const [checked, last] = step.statements(readSpecs).get(after, max) as [count: number, last: string | null];
  const isEnd = checked < max || last === null;
  const changes = setAsideUnreadable(step, { after, last: isEnd ? seqRange.last : last });
  return {
    checked,
    repaired: repairs("set-aside", changes),
    cursor: isEnd ? "jobs:0" : `records:${last}`,
  };
}

/** Inputs: seq, limit. Answer: how many rows, and the last seq. */
const readRange = `SELECT count(*), max(seq) FROM 
  (SELECT seq FROM millrace_job WHERE seq > ? ORDER BY seq ${limitTo("?")})`;
/** Inputs: first and last seq. Guard: the timer is not the earliest clock. */
const repairTimers = `UPDATE millrace_job SET timer_at = ${presentTimerAt}
  WHERE seq > ? AND seq <= ? AND timer_at IS NOT ${presentTimerAt}`;

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
const readKeys = `SELECT key FROM millrace_unique WHERE key > ? ORDER BY key ${limitTo("?")}`;
/** Input: key. Guard: held by a job, not by time, and no live job is there. */
const repairKey = `DELETE FROM millrace_unique
  WHERE key = ? AND held_until IS NULL AND seq NOT IN (SELECT seq FROM millrace_job)`;

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
const readTags = `SELECT tag, seq FROM millrace_tag WHERE (tag, seq) > (?, ?) ORDER BY tag, seq ${limitTo("?")}`;
/** Inputs: tag and seq to go on after, tag and seq of the last. Guard: the job is kept nowhere. */
const repairTags = `DELETE FROM millrace_tag
  WHERE (tag, seq) > (?, ?) AND (tag, seq) <= (?, ?) AND seq NOT IN (SELECT seq FROM millrace_spec)`;

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
const readLines = `SELECT count(*), max(seq) FROM 
  (SELECT seq FROM millrace_trail WHERE seq > ? ORDER BY seq ${limitTo("?")})`;
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
