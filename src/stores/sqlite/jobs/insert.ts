/**
 * Writes new jobs of both paths as sets. A value that all jobs of a set share is bound once per statement, the others
 * are bound with each row, and rare fields that no job of the set has are not bound at all. Of a bulk of one kind only
 * id and input are bound for each job, and live rows are copied from their specs inside the database: 2 values instead
 * of 20 made a bulk a sixth faster.
 *
 * What was added is in the store only after `flush`.
 */
import { fieldNames, isLiveField, isSpecField, jobFields } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName, JobRow } from "../../../store/job-fields.ts";
import type { PlainRow } from "../../../store/rules/place.ts";
import { columnList, sqlValue } from "../connection/columns.ts";
import { openRowSets, runRowSets } from "../connection/connection.ts";
import type { NamedValues, RowSet, SqlValue, Statements } from "../connection/connection.ts";
import { addTags, shareTags } from "./delete-job.ts";
import { sql } from "../../../store/sql.ts";

export interface Insert {
  /** The rare fields of a plain job are initial: nobody looks at them. */
  readonly addPlain: (row: PlainRow) => void;
  /** @param isMember it has the path of flow members: a run of members that are alike is a set of its own. */
  readonly add: (row: PlainRow & Partial<JobRow>, isMember?: boolean) => void;
  readonly flush: () => void;
  /**
   * Whether a job with this id was added but is not in the store yet. Asking begins the book of ids: others pay
   * nothing for it.
   */
  readonly hasPending: (id: string) => boolean;
}

const ownNames: readonly JobFieldName[] = ["seq", "id", "createdAt", "input"];
const isOwn = (name: string): boolean => ownNames.includes(name as JobFieldName);
/** Texts and tags of a spec, and where a job stands: what plain jobs of one call mostly share. */
const textNames = fieldNames((field, name) => isSpecField(field) && field.isRare !== true && !isOwn(name));
const placeNames = [
  "route",
  "state",
  "rank",
  "dueAt",
  "deadlineAt",
  "ttlAt",
  "timerAt",
] as const satisfies (keyof PlainRow)[];
/** What is rare of a live row; all else of it is the same for every new job. */
const isRareLive = (field: JobField, name: string): boolean =>
  name === "holds" || (isLiveField(field) && field.isRare === true);
const rareNames = fieldNames(
  (field, name) => isRareLive(field, name) || (isSpecField(field) && field.isRare === true),
);
const isOf = (names: readonly JobFieldName[]) => (name: JobFieldName) => names.includes(name);
const keyNames = rareNames.filter(isOf(["digest", "uniqueKey", "uniqueHold", "holds"]));
const laneNames = rareNames.filter(isOf(["laneKey", "laneStep", "laneGates"]));
const flowNames = rareNames.filter(isOf(["flow", "edges", "freed", "waits"]));
const otherNames = rareNames.filter((name) => ![...keyNames, ...laneNames, ...flowNames].includes(name));
/**
 * Rare fields by what they come with, one bit each, so that there are few statements. A set binds those of a group
 * where one of its jobs has any: members of flows cost a fifth less than with all rare fields.
 */
const rareGroups = [keyNames, laneNames, flowNames, otherNames];
const flowGroup = 1 << rareGroups.indexOf(flowNames);
/** What members of a run share. */
const sharedByMembers = [...textNames, ...flowNames];
const isInGroups = (groups: number, isWanted: (field: JobField, name: string) => boolean): JobFieldName[] =>
  rareGroups
    .filter((_, bit) => (groups & (1 << bit)) !== 0)
    .flat()
    .filter((name) => isWanted(jobFields[name], name));

interface SetInsert {
  readonly sets: readonly RowSet[];
  readonly perRow: readonly JobFieldName[];
  readonly shared: readonly JobFieldName[];
}

const named = (name: string): string => `@${name}`;

/** Inputs: the seq of the first row and the shared fields by name, then the others of each row. */
function openSetInsert(
  table: string,
  shared: readonly JobFieldName[],
  perRow: readonly JobFieldName[],
): SetInsert {
  const insert = `INSERT INTO ${table} (${columnList(["seq", ...shared, ...perRow])})`;
  const sharedInputs = shared.map(named);
  const selected = ["@seq + e.at", ...sharedInputs, columnList(perRow, {}, "e.")].join(", ");
  const sets = openRowSets(
    columnList(perRow),
    (set) => sql`WITH ${set} ${insert} SELECT ${selected} FROM e`,
    `${insert} VALUES (${["@seq", ...sharedInputs, ...perRow.map(() => "?")].join(", ")})`,
  );
  return { sets, perRow, shared };
}

/** What members of one flow with the same edges share of these, beside what any jobs may share. */
const flowFields = (groups: number, isWanted: typeof isRareLive): readonly JobFieldName[] =>
  isInGroups(groups & flowGroup, isWanted);

/** By whether the jobs share their texts and their place in a flow, and what is rare of them. */
const specInserts = openInserts((areShared, groups) =>
  openSetInsert(
    "millrace_spec",
    ["createdAt", ...(areShared ? [...textNames, ...flowFields(groups, isSpecField)] : [])],
    [
      ...(["id", "input"] as const),
      ...(areShared ? [] : [...textNames, ...flowFields(groups, isSpecField)]),
      ...isInGroups(groups & ~flowGroup, isSpecField),
    ],
  ),
);
/** By whether the jobs share their place, and what is rare of them. */
const liveInserts = openInserts((areShared, groups) =>
  openSetInsert("millrace_job", areShared ? placeNames : [], [
    "id",
    ...(areShared ? [] : placeNames),
    ...isInGroups(groups, isRareLive),
  ]),
);
/** Groups of which a live row has something. */
const liveGroups = rareGroups.reduce(
  (bits, names, bit) => bits + (names.some((name) => isRareLive(jobFields[name], name)) ? 1 << bit : 0),
  0,
);
/** Inputs: these fields by name; first and last seq. Answer: live rows that share them, with the ids of their specs. */
const copyLive = (shared: readonly JobFieldName[]): string =>
  sql`INSERT INTO millrace_job (${columnList(["seq", "id", ...shared])})
  SELECT seq, id, ${shared.map(named).join(", ")} FROM millrace_spec WHERE seq BETWEEN ? AND ?`;
const copiedPlain = { names: placeNames, sql: copyLive(placeNames) };
const memberNames = [...placeNames, ...flowFields(-1, isRareLive)];
const copiedMembers = { names: memberNames, sql: copyLive(memberNames) };

type Inserts = (areShared: boolean, groups: number) => SetInsert;

function openInserts(open: Inserts): Inserts {
  const known = new Map<number, SetInsert>();
  return (areShared, groups) => {
    const at = groups * 2 + (areShared ? 1 : 0);
    let insert = known.get(at);
    if (insert === undefined) known.set(at, (insert = open(areShared, groups)));
    return insert;
  };
}

export function openInsert(statements: Statements): Insert {
  let rows: PlainRow[] = [];
  /** What is rare of any of them. */
  let groups = 0;
  let hasMembers = false;
  let pending: Set<string> | null = null;

  const flush = (): void => {
    pending?.clear();
    if (rows.length === 0) return;
    if (!hasMembers)
      writeRows(
        statements,
        rows,
        groups,
        haveSame(rows, (groups & flowGroup) === 0 ? textNames : sharedByMembers),
      );
    else
      for (const { members, isOneText } of runsOfMembers(rows))
        writeRows(statements, members, groups, isOneText);
    rows = [];
    groups = 0;
    hasMembers = false;
  };

  const addPlain = (row: PlainRow): void => {
    rows.push(row);
    pending?.add(row.id);
    if (rows.length === rowsMax) flush();
  };

  const add = (row: PlainRow & Partial<JobRow>, isMember = false): void => {
    groups |= groupsOf(row);
    hasMembers ||= isMember;
    addPlain(row);
  };

  const hasPending = (id: string): boolean => {
    if (pending === null) {
      flush();
      pending = new Set();
    }
    return pending.has(id);
  };

  return { add, addPlain, flush, hasPending };
}

/** What is rare of a job. */
function groupsOf(row: Partial<JobRow>): number {
  let groups = 0;
  for (let bit = 0; bit < rareGroups.length; bit++)
    if (rareGroups[bit]?.some((name) => hasGiven(row, name)) === true) groups |= 1 << bit;
  return groups;
}

function hasGiven(row: Partial<JobRow>, name: JobFieldName): boolean {
  const value = row[name] ?? null;
  return value !== null && value !== ((jobFields[name] as JobField).initial ?? null);
}

const rowsMax = 1024;

/** Fewer live rows are bound than copied. */
const copiedMin = 8;

/** The rows in order; many that stand in one flow and differ in id and input only are a set of their own. */
function runsOfMembers(
  rows: readonly PlainRow[],
): readonly { readonly members: readonly PlainRow[]; readonly isOneText: boolean }[] {
  const sets: { members: readonly PlainRow[]; isOneText: boolean }[] = [];
  let from = 0;
  for (let at = 0; at < rows.length;) {
    const first = rows[at] as PlainRow;
    let end = at + 1;
    while (end < rows.length && isMemberLike(rows[end] as PlainRow, first)) end += 1;
    if (end - at >= copiedMin) {
      if (at > from) sets.push({ members: rows.slice(from, at), isOneText: false });
      sets.push({ members: rows.slice(at, end), isOneText: true });
      from = end;
    }
    at = end;
  }
  if (from < rows.length) sets.push({ members: rows.slice(from), isOneText: false });
  return sets;
}

/** @param values those of each row that it does not share with the first. */
function runSet(
  statements: Statements,
  { sets, perRow, shared }: SetInsert,
  first: PlainRow,
  values: readonly SqlValue[],
): void {
  const common = namedValues(first, shared);
  runRowSets(statements, sets, { values, width: perRow.length }, (at) => ({
    ...common,
    seq: first.seq + at,
  }));
}

/** @param isOneText they share their texts and, where any of them has one, their place in a flow. */
function writeRows(
  statements: Statements,
  rows: readonly PlainRow[],
  groups: number,
  isOneText: boolean,
): void {
  const first = rows[0] as PlainRow;
  const last = rows[rows.length - 1] as PlainRow;
  const run = (inserts: Inserts, areShared: boolean): void => {
    const insert = inserts(areShared, groups);
    runSet(statements, insert, first, rowValues(rows, insert.perRow));
  };
  const areMembers = (groups & flowGroup) !== 0;
  run(specInserts, isOneText);
  const isOnePlace = haveSame(rows, placeNames);
  const bound = areMembers && isOneText ? groups & ~flowGroup : groups;
  if (isOnePlace && (bound & liveGroups) === 0 && rows.length >= copiedMin) {
    const { names, sql } = areMembers ? copiedMembers : copiedPlain;
    statements(sql).run(namedValues(first, names), first.seq, last.seq);
  } else run(liveInserts, isOnePlace);
  if (isOneText) shareTags(statements, first.tags ?? [], first.seq, last.seq);
  else if (rows.some(({ tags }) => tags !== null)) addTags(statements, first.seq, last.seq);
}

/** Whether all rows have the same values of these fields. Of lists it is asked whether they are the very same. */
function haveSame(rows: readonly PlainRow[], names: readonly JobFieldName[]): boolean {
  const [first] = rows as readonly Partial<JobRow>[];
  for (const name of names) {
    const value = first?.[name];
    for (let at = 1; at < rows.length; at++) if ((rows[at] as Partial<JobRow>)[name] !== value) return false;
  }
  return true;
}

/** Of one flow, with the same edges and waits; or of none. */
function isMemberLike(one: Partial<JobRow>, other: Partial<JobRow>): boolean {
  for (const name of sharedByMembers) if (!isSame(one[name], other[name])) return false;
  return true;
}

/** Whether two values are the same, or lists of the same texts. */
function isSame(one: JobRow[JobFieldName] | undefined, other: JobRow[JobFieldName] | undefined): boolean {
  if (one === other) return true;
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
  return one.every((text, at) => text === other[at]);
}

function rowValues(rows: readonly PlainRow[], names: readonly JobFieldName[]): SqlValue[] {
  const values: SqlValue[] = [];
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at] as PlainRow;
    // Most sets bind these two alone, and a look-up by a name that varies takes ten times as long.
    for (let place = 0; place < names.length; place++) {
      const name = names[place] as JobFieldName;
      if (name === "id") values.push(row.id);
      else if (name === "input") values.push(row.input);
      else values.push(valueOf(row, name));
    }
  }
  return values;
}

function namedValues(row: PlainRow, names: readonly JobFieldName[]): NamedValues {
  const values: Partial<Record<JobFieldName, SqlValue>> = {};
  for (const name of names) values[name] = valueOf(row, name);
  return values as NamedValues;
}

function valueOf(row: Partial<JobRow>, name: JobFieldName): SqlValue {
  const value = row[name];
  if (typeof value === "string" || typeof value === "number") return value;
  return sqlValue(value ?? (jobFields[name] as JobField).initial ?? null);
}
