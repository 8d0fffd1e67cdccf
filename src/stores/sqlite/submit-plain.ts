/**
 * Submit of plain jobs (store/plain.ts), as sets. Jobs that differ in id and input only, as nearly all jobs of a bulk and of a busy turn do, are one
 * run: what they share is bound once per statement, and their live rows are copied from their specs inside the database. So 2 values per
 * job cross into SQLite instead of 20, which made a bulk a sixth faster.
 *
 * What was added is in the store only after `flush`.
 */
import { stateCodes } from "../../model/job-state.ts";
import { fieldNames, jobFields } from "../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../store/job-fields.ts";
import type { NewJob } from "../../store/records.ts";
import { newPlaceOf, tagsOf } from "../../store/rules/place.ts";
import type { NewPlace } from "../../store/rules/place.ts";
import { columnList, sqlValue } from "./columns.ts";
import { openRowSets, runRowSets } from "./connection.ts";
import type { NamedValues, SqlValue } from "./connection.ts";
import { addTags } from "./forget.ts";
import { keepRoute } from "./routes.ts";
import { count, setClock, tellEvent } from "./step.ts";
import type { Step } from "./step.ts";
import { nextSeq } from "./submit-general.ts";

export interface PlainSubmit {
  readonly add: (job: NewJob) => void;
  readonly flush: () => void;
}

interface Run {
  readonly first: number;
  readonly route: number;
  readonly place: NewPlace;
  readonly shared: NamedValues;
  readonly ids: string[];
  /** id, input, id, input ... of jobs with consecutive seqs. */
  readonly values: string[];
}

const width = 2;
const ownNames: readonly JobFieldName[] = ["seq", "id", "createdAt", "input"];
/** What a submit says of a plain job in its spec, beside what is the job's own. Rare fields have their initial values. */
const sharedNames = fieldNames(
  ({ home, isRare }, name) => home === "spec" && isRare !== true && !ownNames.includes(name as JobFieldName),
);
const placeNames = [
  "state",
  "rank",
  "dueAt",
  "deadlineAt",
  "ttlAt",
  "timerAt",
] as const satisfies (keyof NewPlace)[];

const named = (names: readonly string[]): string => names.map((name) => `@${name}`).join(", ");

/** Inputs: seq of the first row, time and the shared fields by name; then id and input of each row. */
const addSpecs = openRowSets(
  (at) => `(@seq + ${at}, ${named(["createdAt", ...sharedNames])}, ?, ?)`,
  (rows) =>
    `INSERT INTO millrace_spec (${columnList(["seq", "createdAt", ...sharedNames, "id", "input"])}) VALUES ${rows}`,
);
/** Inputs: route and place by name; first and last seq. */
const addJobs = `INSERT INTO millrace_job (${columnList(["seq", "id", "route", ...placeNames])})
  SELECT seq, id, ${named(["route", ...placeNames])} FROM millrace_spec WHERE seq BETWEEN ? AND ?`;

export function openPlainSubmit(step: Step): PlainSubmit {
  const { statements, turn, now } = step;
  let run: Run | null = null;

  const flush = (): void => {
    if (run !== null) writeRun(step, run);
    run = null;
  };

  const add = (job: NewJob): void => {
    const route = keepRoute(statements, turn.routes, job);
    const place = newPlaceOf(job, now);
    if (run !== null && !(route === run.route && isLike(run, job, place))) flush();
    const seq = nextSeq(turn);
    run ??= { first: seq, route, place, shared: sharedBy(job), ids: [], values: [] };
    run.ids.push(job.id);
    run.values.push(job.id, job.input);
  };

  return { add, flush };
}

function givenBy(job: NewJob, name: JobFieldName): SqlValue {
  if (name === "tags") return sqlValue(tagsOf(job));
  const given = (job as unknown as Readonly<Partial<Record<JobFieldName, SqlValue>>>)[name];
  return given ?? (jobFields[name] as JobField).initial ?? null;
}

function sharedBy(job: NewJob): NamedValues {
  return Object.fromEntries(sharedNames.map((name) => [name, givenBy(job, name)]));
}

function isLike(run: Run, job: NewJob, place: NewPlace): boolean {
  return (
    placeNames.every((name) => place[name] === run.place[name]) &&
    sharedNames.every((name) => givenBy(job, name) === run.shared[name])
  );
}

function writeRun(step: Step, { first, route, place, shared, ids, values }: Run): void {
  const { statements, now } = step;
  const last = first + ids.length - 1;
  const namedOf = (row: number): NamedValues => ({ ...shared, seq: first + row, createdAt: now });
  runRowSets(statements, addSpecs, { values, width }, namedOf);
  statements(addJobs).run({ ...place, route }, first, last);
  if (shared["tags"] !== null) addTags(statements, first, last);
  count(step, route, place.state, ids.length);
  setClock(step, place.timerAt);
  const extra = place.state === stateCodes.scheduled ? place.dueAt : null;
  const told = { kind: "submitted", rev: 1, route, state: place.state, attempt: 0, extra } as const;
  for (const id of ids) tellEvent(step, { ...told, id });
}
