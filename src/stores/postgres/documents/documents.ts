/** Documents (documents/documents.sql.ts): versioned texts under a guard, for settings, leases and the caller's KV. */
import { untilMs } from "../../../store/due-job.ts";
import { dueDocsPage, placeOfCursor } from "../../../store/due-docs.ts";
import { emptyHints, hintDoc } from "../../../store/watch/hints.ts";
import type {
  HeartbeatAnswer,
  HeartbeatRequest,
  PutDocAnswer,
  ReadDocsAnswer,
  ReadDocsRequest,
  ReadDueDocsAnswer,
  ReadDueDocsRequest,
  WriteAnswer,
} from "../../../store/operations.ts";
import { choosePath } from "../../../store/paths.ts";
import type { Doc, DocPut } from "../../../store/records.ts";
import { hasLeft } from "../../../store/rules/add.ts";
import { callRead, callWrite, lightly, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Row, Value } from "../connection/database.ts";
import { postgresPaths } from "../paths.ts";
import { packNullable, packText, readNumber, readNumbers, unpackText } from "../functions/packed-values.ts";
import { unitDoc } from "../jobs/packed-unit.ts";

export async function putDocs(calls: Calls, puts: readonly DocPut[]): Promise<PutDocAnswer[]> {
  if (puts.length === 0) return [];
  if (choosePath(postgresPaths.putDocs, puts) === "set") return deleteDocs(calls, puts);
  const rows = await callWrite(calls, "put_docs_v1", [JSON.stringify(puts.map(unitDoc))]);
  const answers = answersOf(rows);
  emitPuts(calls, puts, answers);
  return answers;
}

function emitPuts(calls: Calls, puts: readonly DocPut[], answers: readonly PutDocAnswer[]): void {
  const hints = emptyHints();
  // The store's time is not known here, so the hint says "due now". The duty that receives it looks and learns the next
  // clock.
  if (puts.some((put, at) => (put.due ?? null) !== null || hasLeft(put, answers[at]))) hintDoc(hints, 0);
  hints.hasEmitted = puts.some(({ emits }) => emits !== undefined);
  calls.emit(hints);
}

const placeOf = ({ kind, id }: DocPut): string => JSON.stringify([kind, id]);

async function deleteDocs(calls: Calls, puts: readonly DocPut[]): Promise<PutDocAnswer[]> {
  const inOrder = puts
    .map((put, at) => ({ put, at, place: placeOf(put) }))
    .sort((one, other) => (one.place < other.place ? -1 : 1));
  const deletes = JSON.stringify(inOrder.map(({ put }) => unitDoc(put)));
  const answers = answersOf(await callWrite(calls, "delete_docs_v1", [deletes]));
  const placed: PutDocAnswer[] = [];
  for (const [index, { at }] of inOrder.entries()) placed[at] = answers[index] as PutDocAnswer;
  return placed;
}

/** A heartbeat that puts documents waits for the disk as any put does; one that only reads does not. */
export async function heartbeat(calls: Calls, { puts, read }: HeartbeatRequest): Promise<HeartbeatAnswer> {
  const packed = puts.length === 0 ? null : JSON.stringify(puts.map(unitDoc));
  const by = puts.length === 0 ? lightly(calls) : calls;
  const values = [packed, packText(read.kind), ...readValues(read)];
  const [time, clock, put, found, ready] = onlyRow(await callWrite(by, "heartbeat_v1", values));
  const now = Number(time);
  const rowsIn = (text: string | null | undefined): Row[] => JSON.parse(text ?? "[]") as Row[];
  const answers = answersOf(rowsIn(put));
  if (puts.length > 0) emitPuts(calls, puts, answers);
  return {
    puts: answers,
    read: pageOf(read, rowsIn(found)),
    ready: readNumbers(ready ?? null),
    nextDueInMs: untilMs(readNumber(clock ?? null), now),
    now,
  };
}

const answersOf = (rows: readonly Row[]): PutDocAnswer[] => rows.map(answerOf);

/** A number is of an add alone; one that was refused has no version. */
function answerOf([kind, version, number = null]: Row): PutDocAnswer {
  if (kind === "uncountable") return { kind };
  if (kind === "above") return { kind, number: Number(number) };
  const answer: WriteAnswer = { kind: kind as WriteAnswer["kind"], version: Number(version) };
  return number === null ? answer : ({ ...answer, number: Number(number) } as PutDocAnswer);
}

export async function readDocs(calls: Calls, request: ReadDocsRequest): Promise<ReadDocsAnswer> {
  if ("ids" in request && request.ids.length === 0) return { docs: [], cursor: null };
  const values = [calls.now(), packText(request.kind), ...readValues(request)];
  return pageOf(request, await callRead(calls, "read_docs_v1", values));
}

type ReadValues = readonly [ids: Value, first: Value, after: Value, max: Value];

function readValues(request: ReadDocsRequest): ReadValues {
  if ("ids" in request) return [[...new Set(request.ids)].map(packText), null, null, null];
  const { prefix, after, max } = request;
  return [null, prefix === "" ? "" : packText(prefix), packNullable(after), max + 1];
}

function pageOf(request: ReadDocsRequest, rows: readonly Row[]): ReadDocsAnswer {
  const read = rows.map((row) => docOf(request.kind, row));
  if ("ids" in request) return { docs: read, cursor: null };
  const { prefix, max } = request;
  // Ids with the prefix are adjacent in byte order, so the first id without it ends them.
  const found = read.filter(({ id }) => id.startsWith(prefix));
  const docs = found.slice(0, max);
  return { docs, cursor: found.length > max ? (docs.at(-1)?.id ?? null) : null };
}

export async function readDueDocs(
  calls: Calls,
  { max, cursor }: ReadDueDocsRequest,
): Promise<ReadDueDocsAnswer> {
  const { dueAt, kind, id } = placeOfCursor(cursor);
  const first = [kind, id].map((text) => (text === "" ? "" : packText(text)));
  const rows = await callRead(calls, "read_due_docs_v1", [calls.now(), dueAt, ...first, max + 1]);
  const [time, nextClock] = rows.pop() as Row;
  const now = Number(time);
  const docs = rows.map(([, , packedKind, ...row]) => docOf(unpackText(packedKind as string), row));
  return { ...dueDocsPage(docs, max), now, nextInMs: untilMs(readNumber(nextClock ?? null), now) };
}

function docOf(kind: string, [id, version, body, dueAt, expiresAt]: Row): Doc {
  return {
    kind,
    id: unpackText(id as string),
    version: Number(version),
    body: unpackText(body as string),
    dueAt: readNumber(dueAt ?? null),
    expiresAt: readNumber(expiresAt ?? null),
  };
}
