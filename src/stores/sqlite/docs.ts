/**
 * Documents: versioned texts under a guard, for settings, terms and the caller's KV. An expired document counts as
 * absent for every guard and every read; its version still grows, so that the holder of an expired term can never
 * pass for its successor. For the same reason a new document begins above the floor: the highest version that any
 * document had when it was deleted or pruned.
 */
import type { PutDocAnswer, ReadDocsAnswer, ReadDocsRequest } from "../../store/operations.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import { limitTo } from "./connection.ts";
import type { Statements } from "./connection.ts";
import type { Step } from "./step.ts";

/** Inputs: kind, id. Answer: version and expiry of what is written there, expired or not. */
const findVersion = "SELECT version, expires_at FROM millrace_doc WHERE kind = ? AND id = ?";
/** Inputs: the whole row. Guard: checked before, in the same transaction. */
const putRow = `INSERT INTO millrace_doc (kind, id, version, body, due_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (kind, id) DO UPDATE
  SET version = excluded.version, body = excluded.body, due_at = excluded.due_at, expires_at = excluded.expires_at`;
/** Inputs: kind, id. */
const dropRow = "DELETE FROM millrace_doc WHERE kind = ? AND id = ?";
/** No input. Answer: the floor; no row before the first document went. */
const readFloor = "SELECT value FROM millrace_meta WHERE name = 'doc_floor'";
/** Input: version of a document that goes. */
const putFloor = `INSERT INTO millrace_meta (name, value) VALUES ('doc_floor', ?)
  ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)`;

export function putDocs(step: Step, puts: readonly DocPut[]): PutDocAnswer[] {
  return puts.map((put) => putDoc(step, put));
}

export function putDoc(step: Step, put: DocPut): PutDocAnswer {
  const { statements, now } = step;
  const row = statements(findVersion).get(put.kind, put.id) as
    | [version: number, expiresAt: number | null]
    | undefined;
  const isThere = row !== undefined && (row[1] === null || row[1] > now);
  const current = isThere ? row[0] : 0;
  if (!holdsGuard(put, current)) return { kind: "changed", version: current };
  if (put.body === null) {
    if (row !== undefined) dropDoc(statements, put, row[0]);
    return { kind: "ok", version: 0 };
  }
  const version = (row === undefined ? floorOf(statements) : row[0]) + 1;
  statements(putRow).run(
    put.kind,
    put.id,
    version,
    put.body,
    after(put.dueInMs, now),
    after(put.expiresInMs, now),
  );
  return { kind: "ok", version };
}

function floorOf(statements: Statements): number {
  const row = statements(readFloor).get() as [version: number] | undefined;
  return row === undefined ? 0 : row[0];
}

export function dropDoc(
  statements: Statements,
  { kind, id }: { readonly kind: string; readonly id: string },
  version: number,
): void {
  statements(putFloor).run(version);
  statements(dropRow).run(kind, id);
}

function holdsGuard({ guard }: DocPut, current: number): boolean {
  if (guard === "any") return true;
  return guard === "absent" ? current === 0 : current === guard.version;
}

function after(inMs: number | null | undefined, now: number): number | null {
  return inMs === null || inMs === undefined ? null : now + inMs;
}

type DocRow = [id: string, version: number, body: string, dueAt: number | null, expiresAt: number | null];

const columns = "id, version, body, due_at, expires_at";
/** Inputs: kind, id, now. */
const readOne = `SELECT ${columns} FROM millrace_doc
  WHERE kind = ? AND id = ? AND (expires_at IS NULL OR expires_at > ?)`;
/** Inputs: kind, first id, id to go on after, now, limit. Answer: in byte order. */
const readRange = `SELECT ${columns} FROM millrace_doc
  WHERE kind = ? AND id >= ? AND id > ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY id ${limitTo("?")}`;

export function readDocs({ statements, now }: Step, request: ReadDocsRequest): ReadDocsAnswer {
  const { kind } = request;
  if ("ids" in request) {
    const rows = [...new Set(request.ids)].map(
      (id) => statements(readOne).get(kind, id, now) as DocRow | undefined,
    );
    const docs = rows.filter((row) => row !== undefined).map((row) => docOf(kind, row));
    return { docs: docs.sort((one, other) => compareBytes(one.id, other.id)), cursor: null };
  }
  const { prefix, after: from, max } = request;
  const rows = statements(readRange).all(kind, prefix, from ?? "", now, max + 1) as DocRow[];
  // Ids with the prefix stand together in byte order, so the first one without it ends the page.
  const end = rows.findIndex(([id]) => !id.startsWith(prefix));
  const found = end === -1 ? rows : rows.slice(0, end);
  const docs = found.slice(0, max).map((row) => docOf(kind, row));
  return { docs, cursor: found.length > max ? (docs.at(-1)?.id ?? null) : null };
}

function docOf(kind: string, [id, version, body, dueAt, expiresAt]: DocRow): Doc {
  return { kind, id, version, body, dueAt, expiresAt };
}

/** UTF-8 byte order, as SQLite sorts: UTF-16 order differs above the basic plane. */
function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
