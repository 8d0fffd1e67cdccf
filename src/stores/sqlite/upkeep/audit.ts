/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing;
 * a repair means a bug or a hand in the file, and is counted by kind so that somebody looks.
 *
 * A cursor is the name of a phase and the key in its table behind which it goes on; each phase is followed by the next.
 */
import type { AuditAnswer } from "../../../store/upkeep.ts";
import { seqRange, keepAllUnreadable } from "./keep-unreadable.ts";
import { auditLanes } from "./audit-lanes.ts";
import { auditStateCounts } from "./audit-counts.ts";
import { presentTimerAt } from "../jobs/clock.ts";
import { limitTo } from "../connection/connection.ts";
import type { SqlValue } from "../connection/connection.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** What one call has looked at. */
interface Piece {
  readonly checked: number;
  readonly changes: number;
  /** The key to go on behind; null at the end of the phase. */
  readonly last: string | null;
}

interface Phase {
  readonly name: string;
  readonly repairs: string;
  /** The key in front of all others. */
  readonly start: string;
  readonly audit: (step: Step, after: string, max: number) => Piece;
}

const isKeptNowhere = "seq NOT IN (SELECT seq FROM millrace_spec)";
/** A key held by time outlives its job. */
const isHeldByNobody = "held_until IS NULL AND seq NOT IN (SELECT seq FROM millrace_job)";
const isTimerWrong = `timer_at IS NOT ${presentTimerAt}`;
const setTimer = sql`UPDATE millrace_job SET timer_at = ${presentTimerAt}`;

const phases: readonly Phase[] = [
  { name: "records", repairs: "unreadable", start: seqRange.after, audit: auditRecords },
  {
    ...{ name: "jobs", repairs: "timer" },
    ...walk({ table: "millrace_job", key: "seq", start: [0], isWrong: isTimerWrong, repair: setTimer }),
  },
  {
    ...{ name: "unique", repairs: "unique" },
    ...walk({ table: "millrace_unique", key: "key", start: [""], isWrong: isHeldByNobody }),
  },
  {
    ...{ name: "tags", repairs: "tag" },
    ...walk({ table: "millrace_tag", key: "tag, seq", start: ["", 0], isWrong: isKeptNowhere }),
  },
  {
    ...{ name: "logs", repairs: "log" },
    ...walk({ table: "millrace_log", key: "seq, fence, number", start: [0, 0, 0], isWrong: isKeptNowhere }),
  },
  {
    ...{ name: "journals", repairs: "journal" },
    ...walk({ table: "millrace_journal", key: "seq, number", start: [0, 0], isWrong: isKeptNowhere }),
  },
  {
    ...{ name: "pastKeys", repairs: "journal" },
    ...walk({ table: "millrace_past_key", key: "seq, number", start: [0, 0], isWrong: isKeptNowhere }),
  },
  {
    ...{ name: "slips", repairs: "journal" },
    ...walk({ table: "millrace_slip", key: "seq, key", start: [0, ""], isWrong: isKeptNowhere }),
  },
  { name: "lanes", repairs: "lane", start: "", audit: auditLanes },
  {
    name: "stateCounts",
    repairs: "state-count",
    start: "",
    audit: ({ statements }) => auditStateCounts(statements),
  },
];

export function auditIndexes(
  step: Step,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): AuditAnswer {
  const found = phases.findIndex(({ name }) => cursor?.startsWith(`${name}:`));
  const at = Math.max(0, found);
  const { name, repairs, start, audit } = phases[at] as Phase;
  const after = cursor === null || found < 0 ? start : cursor.slice(`${name}:`.length);
  const { checked, changes, last } = audit(step, after, max);
  const next = phases[at + 1];
  const following = next === undefined ? null : `${next.name}:${next.start}`;
  return {
    checked,
    repaired: changes === 0 ? {} : { [repairs]: changes },
    cursor: checked < max || last === null ? following : `${name}:${last}`,
  };
}

interface Walk {
  readonly table: string;
  readonly key: string;
  readonly start: readonly SqlValue[];
  readonly isWrong: string;
  /** What is wrong is deleted unless this says otherwise. */
  readonly repair?: string;
}

/** Walks a table in order of its key and repairs what is wrong in it. */
function walk(given: Walk): Pick<Phase, "start" | "audit"> {
  const { table, key, start, isWrong, repair = `DELETE FROM ${table}` } = given;
  const inputs = key.replaceAll(/\w+/g, "?");
  /** Inputs: the key to go on behind, limit. Answer: the next keys. */
  const readKeys = `SELECT ${key} FROM ${table} WHERE (${key}) > (${inputs}) ORDER BY ${key} ${limitTo("?")}`;
  /** Inputs: the key to go on behind, the last key. */
  const repairRows = `${repair} WHERE (${key}) > (${inputs}) AND (${key}) <= (${inputs}) AND ${isWrong}`;
  const audit: Phase["audit"] = ({ statements }, after, max) => {
    const first = JSON.parse(after) as SqlValue[];
    const keys = statements(readKeys).all(...first, max) as SqlValue[][];
    const last = keys.at(-1);
    if (last === undefined) return { checked: 0, changes: 0, last: null };
    const changes = Number(statements(repairRows).run(...first, ...last).changes);
    return { checked: keys.length, changes, last: JSON.stringify(last) };
  };
  return { start: JSON.stringify(start), audit };
}

/** Inputs: seq as a text, limit. Answer: how many specs, and the last seq as a text. */
const readSpecs = sql`SELECT count(*), CAST(max(seq) AS TEXT) FROM
  (SELECT seq FROM millrace_spec WHERE seq > CAST(? AS INTEGER) ORDER BY seq ${limitTo("?")})`;

/** Records that nobody may ever meet: whatever cannot be read is kept as unreadable. */
function auditRecords(step: Step, after: string, max: number): Piece {
  const [checked, last] = step.statements(readSpecs).get(after, max) as [count: number, last: string | null];
  const end = checked < max ? null : last;
  return { checked, changes: keepAllUnreadable(step, { after, last: end ?? seqRange.last }), last: end };
}
