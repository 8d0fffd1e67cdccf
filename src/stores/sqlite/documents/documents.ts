/**
 * Documents: versioned texts under a guard, for settings, the leader lease and the caller's KV. What a put makes of one
 * is in store/rules/put-doc.ts; every read passes over expired ones.
 */
import { dueDocsPage, placeOfCursor } from "../../../store/due-docs.ts";
import type {
  AddAnswer,
  PutDocAnswer,
  ReadDocsAnswer,
  ReadDocsRequest,
  ReadDueDocsAnswer,
  ReadDueDocsRequest,
} from "../../../store/operations.ts";
import { bundleOfPut } from "../../../store/packing/packed-events.ts";
import type { Doc, DocAdd, DocCheck, DocPut } from "../../../store/records.ts";
import { addTo } from "../../../store/rules/add.ts";
import { putDoc as putBy } from "../../../store/rules/put-doc.ts";
import { setDocClock } from "../../../store/rules/call-events.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { nextClockInMs } from "../upkeep/due.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** Inputs: kind, id. Answer: version and expiry of what is written there, expired or not. */
const findVersion = "SELECT version, expires_at FROM millrace_doc WHERE kind = ? AND id = ?";
/** Inputs: kind, id. Answer: the counter that is written there, expired or not. */
const findCounter = "SELECT version, expires_at, body FROM millrace_doc WHERE kind = ? AND id = ?";
/** Inputs: the whole row. Guard: checked before, in the same transaction. */
const putRow = sql`INSERT OR REPLACE INTO millrace_doc (kind, id, version, body, due_at, expires_at)
  VALUES (?, ?, ?, ?, ?, ?)`;
/** Inputs: kind, id. */
const dropRow = "DELETE FROM millrace_doc WHERE kind = ? AND id = ?";
/** No input. Answer: the floor; no row before the first document went. */
const readFloor = "SELECT value FROM millrace_meta WHERE name = 'doc_floor'";
/** Input: version of a document that goes. */
const putFloor = sql`INSERT INTO millrace_meta (name, value) VALUES ('doc_floor', ?)
  ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)`;

export function putDocs(step: Step, puts: readonly DocPut[]): PutDocAnswer[] {
  return puts.map((put) => putDoc(step, put));
}

export function putDoc(step: Step, put: DocPut): PutDocAnswer {
  if (put.add !== undefined) return addToCounter(step, put);
  const { statements, now } = step;
  const { kind, id } = put;
  const row = statements(findVersion).get(kind, id) as
    | [version: number, expiresAt: number | null]
    | undefined;
  const kept = row === undefined ? null : { version: row[0], expiresAt: row[1] };
  const outcome = putBy(kept, put, () => floorOf(statements), now);
  switch (outcome.kind) {
    case "changed":
      return outcome;
    case "deleted":
      if (put.emits !== undefined) step.events.push(bundleOfPut(put.emits));
      if (kept !== null) dropDoc(statements, put, kept.version);
      return { kind: "ok", version: 0 };
    case "written":
      writeDoc(step, outcome.doc);
      if (put.emits !== undefined) step.events.push(bundleOfPut(put.emits));
      return { kind: "ok", version: outcome.doc.version };
  }
}

/** R9. */
function addToCounter(step: Step, put: DocAdd): AddAnswer {
  const { statements, now } = step;
  const row = statements(findCounter).get(put.kind, put.id) as
    | [version: number, expiresAt: number | null, body: string]
    | undefined;
  const kept = row === undefined ? null : { version: row[0], expiresAt: row[1], body: row[2] };
  const outcome = addTo(kept, put, () => floorOf(statements), now);
  if (outcome.kind !== "written") return outcome;
  const { doc, number, left } = outcome;
  writeDoc(step, doc);
  if (left !== null) putDoc(step, left);
  return { kind: "ok", version: doc.version, number };
}

function writeDoc(step: Step, { kind, id, version, body, dueAt, expiresAt }: Doc): void {
  step.statements(putRow).run(kind, id, version, body, dueAt, expiresAt);
  setDocClock(step, dueAt, step.now);
}

function floorOf(statements: Statements): number {
  return readValue<number>(statements, readFloor) ?? 0;
}

export function isDocAt({ statements, now }: Step, { kind, id, version }: DocCheck): boolean {
  const row = statements(findVersion).get(kind, id) as
    | [version: number, expiresAt: number | null]
    | undefined;
  return row !== undefined && row[0] === version && (row[1] === null || row[1] > now);
}

export function dropDoc(
  statements: Statements,
  { kind, id }: { readonly kind: string; readonly id: string },
  version: number,
): void {
  statements(putFloor).run(version);
  statements(dropRow).run(kind, id);
}

type DocRow = [id: string, version: number, body: string, dueAt: number | null, expiresAt: number | null];

const columns = "id, version, body, due_at, expires_at";
const isPresent = "(expires_at IS NULL OR expires_at > ?)";
/** Inputs: kind, a JSON list of ids, now. Answer: in byte order. */
const readNamed = sql`SELECT ${columns} FROM millrace_doc
  WHERE kind = ? AND id IN (SELECT value FROM json_each(?)) AND ${isPresent} ORDER BY id`;
/** Inputs: kind, first id, id to go on after, now, limit. Answer: in byte order. */
const readRange = sql`SELECT ${columns} FROM millrace_doc
  WHERE kind = ? AND id >= ? AND id > ? AND ${isPresent} ORDER BY id ${limitTo("?")}`;

export function readDocs({ statements, now }: Step, request: ReadDocsRequest): ReadDocsAnswer {
  const { kind } = request;
  if ("ids" in request) {
    const rows = statements(readNamed).all(kind, JSON.stringify(request.ids), now) as DocRow[];
    return { docs: rows.map((row) => docOf(kind, row)), cursor: null };
  }
  const { prefix, after: from, max } = request;
  const rows = statements(readRange).all(kind, prefix, from ?? "", now, max + 1) as DocRow[];
  // Ids with the prefix stand together in byte order, so the first one without it ends the page.
  const end = rows.findIndex(([id]) => !id.startsWith(prefix));
  const found = end === -1 ? rows : rows.slice(0, end);
  const docs = found.slice(0, max).map((row) => docOf(kind, row));
  return { docs, cursor: found.length > max ? (docs.at(-1)?.id ?? null) : null };
}

/** Inputs: now, due time, kind and id to go on after, limit. Answer: by due time, kind and id. */
const readDueRows = sql`SELECT kind, ${columns} FROM millrace_doc INDEXED BY millrace_doc_due
  WHERE due_at <= @now AND (due_at, kind, id) > (@dueAt, @kind, @id) ORDER BY due_at, kind, id ${limitTo("@max")}`;

export function readDueDocs({ statements, now }: Step, request: ReadDueDocsRequest): ReadDueDocsAnswer {
  const { max, cursor } = request;
  const rows = statements(readDueRows).all({ now, ...placeOfCursor(cursor), max: max + 1 }) as [
    kind: string,
    ...row: DocRow,
  ][];
  const docs = rows.map(([kind, ...row]) => docOf(kind, row));
  return { ...dueDocsPage(docs, max), now, nextInMs: nextClockInMs(statements, now) };
}

function docOf(kind: string, [id, version, body, dueAt, expiresAt]: DocRow): Doc {
  return { kind, id, version, body, dueAt, expiresAt };
}
