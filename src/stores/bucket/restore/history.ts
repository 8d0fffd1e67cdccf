/**
 * What a bucket holds of its past, read by looking only: its marks, the records of its log, and the store as it was
 * after any record that both of them still give.
 */
import { MillraceError } from "../../../model/error.ts";
import {
  damagedObject,
  headFrom,
  headName,
  logName,
  logPrefix,
  markFrom,
  markPrefix,
  numberOf,
} from "../layout.ts";
import type { Head, Mark } from "../layout.ts";
import type { Objects } from "../objects/objects.ts";
import { decodeRecord } from "../log/log-record.ts";
import type { LogRecord } from "../log/log-record.ts";
import { Replica } from "../copy/replica.ts";

const getsAhead = 16;

export interface FoundMark {
  readonly name: string;
  readonly through: number;
  /** Null if it cannot be read. */
  readonly mark: Mark | null;
}

export async function readHead(objects: Objects): Promise<Head> {
  const bytes = await objects.get(headName);
  if (bytes === null) throw storeMissing();
  return headFrom(bytes);
}

export function storeMissing(): MillraceError {
  const sentence =
    "This bucket holds no store yet. Start a worker on it first, make one with millrace migrate, or correct the URL.";
  return new MillraceError("store-missing", sentence);
}

/** From the newest on. */
export async function readMarks(objects: Objects): Promise<FoundMark[]> {
  const marks: FoundMark[] = [];
  for await (const name of eachName(objects, markPrefix, null)) {
    const bytes = await objects.get(name);
    if (bytes === null) continue;
    marks.push({ name, through: numberOf(name), mark: unlessDamaged(() => markFrom(bytes, name)) });
  }
  return marks;
}

/** The numbers of the records that are there, from this one on, in order. */
export async function listRecords(objects: Objects, from: number): Promise<number[]> {
  const numbers: number[] = [];
  const after = from <= 1 ? null : logName(from - 1);
  for await (const name of eachName(objects, logPrefix, after)) numbers.push(numberOf(name));
  return numbers;
}

export async function* eachName(
  objects: Objects,
  prefix: string,
  start: string | null,
): AsyncGenerator<string> {
  for (let after = start; ;) {
    const { names, isLast } = await objects.list(prefix, after);
    yield* names;
    if (isLast) return;
    after = names.at(-1) as string;
  }
}

export interface FoundRecord {
  readonly n: number;
  /** Null: it is not there. */
  readonly bytes: Uint8Array | null;
  /** Null if it cannot be read. */
  readonly record: LogRecord | null;
}

export async function* eachRecord(objects: Objects, numbers: readonly number[]): AsyncGenerator<FoundRecord> {
  for (let at = 0; at < numbers.length; at += getsAhead) {
    const some = numbers.slice(at, at + getsAhead);
    const found = await Promise.all(some.map((n) => objects.get(logName(n))));
    for (const [index, n] of some.entries()) {
      const bytes = found[index] ?? null;
      yield { n, bytes, record: bytes === null ? null : unlessDamaged(() => decodeRecord(n, bytes)) };
    }
  }
}

/** The last record that its writer's clock has not put after this time; null if there is none that can be had. */
export async function recordAt(objects: Objects, time: number): Promise<number | null> {
  const marks = await readMarks(objects);
  const mark = marks.find((found) => found.mark !== null && found.mark.at <= time)?.mark ?? null;
  const numbers = await listRecords(objects, mark === null ? 1 : mark.from + 1);
  if (mark === null && numbers[0] !== 1) return null;
  let last = mark?.through ?? null;
  for await (const { n, record } of eachRecord(objects, numbers)) {
    if (n <= (mark?.through ?? 0)) continue;
    if (record === null || record.at > time) break;
    last = n;
  }
  return last;
}

/** What marks can be read, from the newest on, and which records of the log are there. */
interface Past {
  readonly marks: readonly Mark[];
  readonly numbers: readonly number[];
}

async function readPast(objects: Objects): Promise<Past> {
  const marks = (await readMarks(objects)).flatMap(({ mark }) => (mark === null ? [] : [mark]));
  return { marks, numbers: await listRecords(objects, 1) };
}

/** Where a copy of the store as it was after a record may begin. Null: with the first record of the log. */
function beginningsOf({ marks, numbers }: Past, until: number | null): (Mark | null)[] {
  const before = marks.filter(({ through }) => until === null || through <= until);
  return numbers[0] === 1 ? [...before, null] : before;
}

/** The records after this one. Refused if the bucket does not have this one any more, or not yet. */
export async function recordsAfter(objects: Objects, until: number): Promise<number[]> {
  const { marks, numbers } = await readPast(objects);
  const isThere = numbers.includes(until) || marks.some(({ through }) => through === until);
  if (!isThere || beginningsOf({ marks, numbers }, until).length === 0)
    throw outOfReach(until, marks, numbers);
  return numbers.filter((n) => n > until);
}

/**
 * The store as it was after a record, or after the last one. It begins at the newest mark that fits, and at an older
 * one if a chunk of that is damaged or gone.
 */
export async function buildStore(
  objects: Objects,
  { path, pageSize, until }: { path: string; pageSize: number; until: number | null },
): Promise<Replica> {
  const { marks, numbers } = await readPast(objects);
  const beginnings = beginningsOf({ marks, numbers }, until);
  if (beginnings.length === 0) throw outOfReach(until, marks, numbers);
  let first: unknown = null;
  for (const mark of beginnings) {
    try {
      const replica = await Replica.restore(objects, { path, pageSize, until, mark });
      if (until === null || replica.n === until) return replica;
      replica.close();
      throw outOfReach(until, marks, numbers);
    } catch (error) {
      first ??= error;
      const object = damagedObject(error);
      // A damaged record is in the way of every beginning.
      if (object?.startsWith(logPrefix) === true) break;
    }
  }
  throw first;
}

/**
 * A record that is gone although the log goes on after it: to a reader it looks like the end. What may stand alone
 * after a gap is the fence of a newcomer or a restore: they close the gap before anything else.
 */
export async function findHole(
  objects: Objects,
  replica: Replica,
): Promise<{ readonly object: string; readonly problem: string } | null> {
  const beyond = async (): Promise<number | null> => {
    await replica.catchUp();
    const first = replica.n + 1;
    const after = (await listRecords(objects, first)).filter((n, at) => n !== first + at);
    for await (const { n, bytes, record } of eachRecord(objects, after))
      if (bytes !== null && record?.kind !== "fence" && record?.kind !== "restored") return n;
    return null;
  };
  if ((await beyond()) === null) return null;
  // A gap may have been closed while it was looked at.
  const next = await beyond();
  if (next === null) return null;
  return { object: logName(replica.n + 1), problem: `it is gone, and record ${next} is there` };
}

function outOfReach(until: number | null, marks: readonly Mark[], numbers: readonly number[]): MillraceError {
  const first = numbers[0] === 1 ? 1 : marks.at(-1)?.through;
  const range =
    first === undefined
      ? "it has no mark that can be read, and the beginning of its log is gone"
      : `it can be restored from record ${first} to ${numbers.at(-1) ?? first}`;
  const sentence = `The bucket does not give the store as it was after record ${until ?? "its last one"}: ${range}. millrace restore --list shows what there is.`;
  return new MillraceError(until === null ? "store-corrupt" : "invalid-option", sentence);
}

function unlessDamaged<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (damagedObject(error) === null) throw error;
    return null;
  }
}
