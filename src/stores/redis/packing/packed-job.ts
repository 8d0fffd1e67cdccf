/**
 * The two texts of a job (packed-fields.ts) read by the names of their fields, and put together as the contract hands a
 * job out.
 */
import { shownRoute } from "../../../model/routing/route.ts";
import type { Route } from "../../../model/routing/route.ts";
import { stateCodes, stateOfCode } from "../../../model/job/job-state.ts";
import { dueFields, fieldNames, leasedFields } from "../../../store/job-fields.ts";
import type { JobFieldName, JobRow } from "../../../store/job-fields.ts";
import type { JobRecord, LeasedJob } from "../../../store/records.ts";
import {
  asInSpec,
  beforeFlags,
  initialText,
  repeatedInState,
  sameInSpec,
  sameInState,
  specFields,
  stateFields,
  shortSpecFields,
} from "./packed-fields.ts";
import { readRoute } from "./route-text.ts";
import { fieldEnd, readerOf, rowsOf, seqOf, unpackNullable, unpackText } from "./value-text.ts";

/** A job's handle and texts; a job that nobody has touched has no state, "". */
export interface JobTexts {
  readonly handle: string;
  readonly spec: string;
  readonly state: string;
}

interface FieldReader {
  readonly name: JobFieldName;
  /** Where it is read in each text; -1 for nowhere. */
  readonly inSpec: number;
  readonly inShortSpec: number;
  readonly inState: number;
  /** In a spec, an empty field says what this one says. */
  readonly same: FieldReader | null;
  /** In a state, a field with this text says what the one at this place says. */
  readonly sameAt: { readonly written: string; readonly place: number } | null;
  readonly read: (text: string) => unknown;
}

function fieldReader(name: JobFieldName): FieldReader {
  const same = sameInSpec[name];
  const sameAt = sameInState[name];
  return {
    name,
    inSpec: specFields.indexOf(name),
    inShortSpec: shortSpecFields.indexOf(name),
    inState: placeInState(name),
    same: same === undefined ? null : fieldReader(same.as),
    sameAt: sameAt === undefined ? null : { written: sameAt.written, place: stateFields.indexOf(sameAt.as) },
    read: name === beforeFlags ? readMarks : readerOf(name),
  };
}

function placeInState(name: JobFieldName): number {
  if (name === beforeFlags) return stateFields.indexOf("flags");
  return repeatedInState.includes(name) ? -1 : stateFields.indexOf(name);
}

/** Flags without a number are those of a job that is not durable. */
function readMarks(flags: string): number {
  const marks = Number.parseInt(flags, 10);
  return Number.isNaN(marks) ? 0 : marks;
}

function specText(spec: readonly string[], field: FieldReader): string {
  const { same, name } = field;
  const place = spec[0] === "" ? field.inShortSpec : field.inSpec;
  if (place < 0) return initialText(name);
  const text = spec[place] as string;
  return text === "" && same !== null ? specText(spec, same) : text;
}

const [dueField, createdField] = [fieldReader("dueAt"), fieldReader("createdAt")];

/** Due when it was made, a job began as ready. */
function firstState(spec: readonly string[]): number {
  const isDue = Number(specText(spec, dueField)) <= Number(specText(spec, createdField));
  return isDue ? stateCodes.ready : stateCodes.scheduled;
}

type Row = Partial<Record<JobFieldName, unknown>>;

const fieldsOf = (names: readonly JobFieldName[]): FieldReader[] =>
  names.filter((name) => name !== "seq").map(fieldReader);
const blankOf = (names: readonly JobFieldName[]): Row =>
  Object.fromEntries(names.map((name) => [name, null]));

/** What states say of some fields. Read once for jobs in a row that have the same: first claims share theirs. */
function stateReader(names: readonly JobFieldName[]): (text: string) => Row {
  const inState = fieldsOf(names).filter((field) => field.inState >= 0);
  const blank = blankOf(names);
  let last = { text: "", row: blank };
  return (text) => {
    if (text === last.text) return last.row;
    const parts = text.split(fieldEnd);
    const row = { ...blank };
    for (const { name, inState: place, sameAt, read } of inState) {
      const isSame = sameAt !== null && parts[place] === sameAt.written;
      row[name] = read(parts[isSame ? sameAt.place : place] as string);
    }
    last = { text, row };
    return row;
  };
}

/** Reads some fields of jobs. */
function rowReader<Name extends JobFieldName>(
  names: readonly Name[],
): (texts: JobTexts) => Pick<JobRow, Name> {
  const fields = fieldsOf(names);
  const inState = fields.filter((field) => field.inState >= 0);
  const inSpec = fields.filter((field) => field.inState < 0);
  const untouched = inState.filter(({ name }) => name !== "state");
  const mayBeAsInSpec = inState.filter(({ name }) => asInSpec.includes(name));
  const blank = blankOf(names);
  const readState = stateReader(names);

  return (texts) => {
    const spec = texts.spec.split(fieldEnd);
    const isUntouched = texts.state === "";
    const row = isUntouched ? { ...blank, state: firstState(spec) } : { ...readState(texts.state) };
    row.seq = seqOf(texts.handle);
    for (const field of inSpec) row[field.name] = field.read(specText(spec, field));
    for (const field of isUntouched ? untouched : mayBeAsInSpec)
      row[field.name] ??= field.read(specText(spec, field));
    return row as Pick<JobRow, Name>;
  };
}

const readLeased = rowReader(leasedFields);
const readLeasedState = stateReader(leasedFields);
const at = Object.fromEntries(shortSpecFields.map((name, place) => [name, place])) as Record<
  (typeof shortSpecFields)[number],
  number
>;

/**
 * As a claim hands it out. Most jobs have a short spec, and a drain reads one after the other: put together field by
 * field they cost half of what the reader of any job takes.
 */
export function leasedJobOf(texts: JobTexts): LeasedJob {
  const { handle, spec, state } = texts;
  if (!spec.startsWith(fieldEnd) || state === "") return readLeased(texts) as LeasedJob;
  const { fence, rev, attempt, attempts, dueAt, claimedAt, durable } = readLeasedState(state) as LeasedJob;
  const parts = spec.split(fieldEnd);
  const text = (name: keyof typeof at): string => parts[at[name]] as string;
  const createdAt = Number(text("createdAt"));
  const specDueAt = text("dueAt") === "" ? createdAt : Number(text("dueAt"));
  return {
    id: unpackText(text("id")),
    seq: seqOf(handle),
    fence,
    route: readRoute(text("route")),
    rev,
    attempt,
    input: unpackText(text("input")),
    policy: unpackNullable(text("policy")),
    meta: unpackNullable(text("meta")),
    attempts,
    createdAt,
    dueAt: (dueAt as number | null) ?? specDueAt,
    claimedAt,
    deadlineAt: null,
    durable,
  };
}

export const readDueRow = rowReader(dueFields);
const readShown = rowReader(fieldNames(({ isOwn }, name) => isOwn !== true || name === "route"));

/** `routes`: by number, as the library gave it with the job. */
export function jobRecordOf(texts: JobTexts, routes: ReadonlyMap<number, Route>): JobRecord {
  const { route: number, state, cancelAsked, ...shown } = readShown(texts) as JobRow;
  const route = routes.get(number);
  if (route === undefined) throw new Error(`no route has the number ${number}`);
  return { ...shown, ...shownRoute(route), state: stateOfCode(state), cancelAsked: cancelAsked === 1 };
}

export function readTexts(flat: readonly string[]): (JobTexts | null)[] {
  return rowsOf<[string, string, string]>(flat, 3).map(([handle, spec, state]) =>
    handle === "" ? null : { handle, spec, state },
  );
}
