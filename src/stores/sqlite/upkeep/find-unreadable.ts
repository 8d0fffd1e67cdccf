/**
 * Which records this version cannot read, as SQL finds them and as a reader meets them. A record is the spec of a job
 * with its live or finished row; what each of its fields may be follows from the table of fields.
 *
 * A reader that meets one throws `Unreadable`. The commit then rolls back, keeps the record as unreadable
 * (keep-unreadable.ts) and runs the call again, so that nobody pays for this while all is well.
 */
import { jobStates, liveStates, stateCodes, terminalStates } from "../../../model/job/job-state.ts";
import type { JobState } from "../../../model/job/job-state.ts";
import { columnOf, jobFields } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../../store/job-fields.ts";
import { finishedNames, liveNames, specNames } from "../connection/columns.ts";
import { resultName, Unreadable } from "../connection/errors.ts";
import { sql } from "../../../store/sql.ts";

/** What `read` answers. Where it fails, the record of this number cannot be read. */
export function readOrReport<A>(what: "job" | "feed", number: number, read: () => A): A {
  try {
    return read();
  } catch (error) {
    if (error instanceof Unreadable || resultName(error) !== null) throw error;
    throw new Unreadable(what, number, error instanceof Error ? error.message : String(error));
  }
}

/**
 * Whether a record may be behind this error though the reader could not say which: a number that JavaScript cannot
 * hold, a state without a name, a text that is no JSON.
 */
export function isReadTrouble(error: unknown): boolean {
  if (error instanceof RangeError || error instanceof SyntaxError) return true;
  return resultName(error) === "ERROR" && error instanceof Error && error.message.includes("JSON");
}

const codesOf = (states: readonly JobState[]): string => states.map((state) => stateCodes[state]).join(", ");

/** Condition: a state that this version knows. */
export const isKnownState = `state IN (${codesOf(jobStates)})`;

const safe = Number.MAX_SAFE_INTEGER;

/** Condition: the field of this row holds what it must not. */
function isWrong(source: string, name: JobFieldName): string {
  const { type, isNullable } = jobFields[name] as JobField;
  const column = `${source}.${columnOf(name)}`;
  const isNone = isNullable === true ? `${column} IS NOT NULL AND` : "";
  switch (type) {
    case "integer":
      return `${isNone} (typeof(${column}) NOT IN ('integer', 'real') OR ${column} NOT BETWEEN -${safe} AND ${safe})`;
    case "flag":
      return `${isNone} ${column} IS NOT 0 AND ${column} IS NOT 1`;
    case "text":
      return `${isNone} typeof(${column}) <> 'text'`;
    case "list":
      return `${isNone} CASE WHEN json_valid(${column}) THEN json_type(${column}) <> 'array' ELSE 1 END`;
  }
}

function wrongFields(source: string, names: readonly JobFieldName[]): string {
  return names
    .map((name) => `WHEN ${isWrong(source, name)} THEN 'the field ${name} is wrong'`)
    .join("\n    ");
}

function wrongPlace(source: string, states: readonly JobState[]): string {
  return `WHEN ${source}.id IS NOT s.id THEN 'its id differs from the id of its spec'
    WHEN ${source}.state NOT IN (${codesOf(states)}) THEN 'its state ' || ${source}.state || ' is unknown here'
    WHEN NOT EXISTS (SELECT 1 FROM millrace_route r WHERE r.number = ${source}.route) THEN 'its route is unknown'`;
}

const whyUnreadable = `CASE
    WHEN j.seq IS NULL AND h.seq IS NULL THEN 'it is neither live nor finished'
    WHEN j.seq IS NOT NULL AND h.seq IS NOT NULL THEN 'it is live and finished'
    ${wrongFields("s", specNames)}
    WHEN j.seq IS NOT NULL THEN CASE
      ${wrongPlace("j", liveStates)}
      WHEN j.state = ${stateCodes.running} AND j.lease_ends_at IS NULL THEN 'it runs without the end of a lease'
      ${wrongFields("j", liveNames)} END
    ELSE CASE
      ${wrongPlace("h", terminalStates)}
      WHEN h.ended_at IS NULL THEN 'it ended at no time'
      ${wrongFields("h", finishedNames)} END
  END`;

const isInRange = "seq > CAST(@after AS INTEGER) AND seq <= CAST(@last AS INTEGER)";
const withoutSpec = (table: string): string => sql`SELECT CAST(seq AS TEXT), 'its spec is missing'
  FROM ${table} t WHERE ${isInRange} AND NOT EXISTS (SELECT 1 FROM millrace_spec s WHERE s.seq = t.seq)`;

/**
 * Inputs: seqs as texts, the first exclusive. Answer: the seq of each unreadable record, as a text because it may
 * itself be a number that cannot be read, and why.
 */
export const findUnreadable = sql`SELECT seq, why FROM (
    SELECT CAST(s.seq AS TEXT) AS seq, ${whyUnreadable} AS why
    FROM (SELECT * FROM millrace_spec WHERE ${isInRange}) s
    LEFT JOIN millrace_job j ON j.seq = s.seq LEFT JOIN millrace_history h ON h.seq = s.seq)
  WHERE why IS NOT NULL
  UNION ALL ${withoutSpec("millrace_job")}
  UNION ALL ${withoutSpec("millrace_history")}`;
