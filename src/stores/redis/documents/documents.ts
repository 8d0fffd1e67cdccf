/** Documents (documents.lua.ts): versioned texts under a guard, for settings, the leader lease and the caller's KV. */
import { untilMs } from "../../../store/due-job.ts";
import { cursorOf, placeOfCursor } from "../../../store/due-docs.ts";
import type { PutDocAnswer, ReadDocsAnswer, ReadDocsRequest } from "../../../store/operations.ts";
import type { Doc, DocPut } from "../../../store/records.ts";
import { readArgument } from "../packing/argument-text.ts";
import type { Operation } from "../connection/call.ts";
import { readHints } from "../feed/hint-text.ts";
import { readRoute } from "../packing/route-text.ts";
import { docField, pushDoc } from "../jobs/submit-text.ts";
import { fieldEnd, packText, readNumber, rowsOf, unpackText } from "../packing/value-text.ts";

export const putDocs: Operation<"putDocs"> = async (calls, puts) => {
  if (puts.length === 0) return [];
  const [hints, flat] = (await calls.connection.write("mr1_put_docs", putArgs(puts))) as [unknown, number[]];
  calls.hint(readHints(hints));
  return putAnswers(puts, flat);
};

export const readDocs: Operation<"readDocs"> = async ({ connection }, request) => {
  if ("ids" in request && request.ids.length === 0) return { docs: [], cursor: null };
  const answer = await connection.read("mr1_read_docs", readArgs(request));
  return readAnswer(request, answer as ReadReply);
};

export const heartbeat: Operation<"heartbeat"> = async (calls, { puts, read }) => {
  const put = putArgs(puts);
  const args = [String(put.length), ...put, ...readArgs(read)];
  type Reply = [at: string, clock: string, put: number[], read: ReadReply, ready: string[], hints?: unknown];
  const reply =
    puts.length === 0
      ? calls.connection.read("mr1_look", args)
      : calls.connection.write("mr1_heartbeat", args);
  const [at, clock, answers, found, ready, hints] = (await reply) as Reply;
  if (hints !== undefined) calls.hint(readHints(hints));
  return {
    puts: putAnswers(puts, answers),
    read: readAnswer(read, found),
    ready: ready.map(readRoute).sort((one, other) => one - other),
    nextDueInMs: untilMs(readNumber(clock), Number(at)),
    now: Number(at),
  };
};

function putArgs(puts: readonly DocPut[]): string[] {
  const args: string[] = [];
  for (const put of puts) pushDoc(args, put);
  return args;
}

function putAnswers(puts: readonly DocPut[], flat: readonly number[]): PutDocAnswer[] {
  let at = 0;
  const next = (): number => flat[at++] as number;
  return puts.map(({ add }): PutDocAnswer => {
    const code = next();
    const version = next();
    if (add === undefined) return code === 1 ? { kind: "ok", version } : { kind: "changed", version };
    const number = next();
    if (code === 2) return { kind: "uncountable" };
    return code === 1 ? { kind: "ok", version, number } : { kind: "above", number };
  });
}

function readArgs(request: ReadDocsRequest): string[] {
  if ("ids" in request) return ["1", ...[...new Set(request.ids)].map((id) => docField(request.kind, id))];
  const { kind, prefix, after, max } = request;
  const { begin, end } = rangeOf(kind, prefix);
  const behind = after === null ? null : docField(kind, after);
  const isInside = behind !== null && Buffer.compare(Buffer.from(behind), Buffer.from(begin)) >= 0;
  const from = isInside ? `(${behind}` : `[${begin}`;
  return ["0", from, `[${end}`, String(max)];
}

type ReadReply = [flat: string[], stop: string];

function readAnswer(request: ReadDocsRequest, [flat, stop]: ReadReply): ReadDocsAnswer {
  if ("ids" in request) return { docs: docsOf(flat).sort(byBytes), cursor: null };
  return { docs: docsOf(flat), cursor: stop === "" ? null : idOf(stop) };
}

export const readDueDocs: Operation<"readDueDocs"> = async ({ connection }, { max, cursor }) => {
  const { dueAt, kind, id } = placeOfCursor(cursor);
  const from = cursor === null ? ["", ""] : [String(dueAt), docField(kind, id)];
  type Answer = [...texts: [at: string, clock: string, score: string, field: string], string[], string];
  const answer = (await connection.read("mr1_read_due_docs", [String(max), ...from])) as Answer;
  const [at, clock, score, , flat, ahead] = answer;
  const docs = docsOf(flat);
  const last = docs.at(-1);
  return {
    docs,
    cursor: score === "" || last === undefined ? null : cursorOf(last),
    now: Number(at),
    ...(ahead === "0" ? {} : { serverNow: Number(at) - Number(ahead) }),
    nextInMs: untilMs(readNumber(clock), Number(at)),
  };
};

/** No text in UTF-8 is after the last character of Unicode, so that ends whatever has a prefix. */
const last = "\u{10ffff}\u{10ffff}";

/** A prefix may end within a character: with the first half of a pair, it is the prefix of all that have this half. */
function rangeOf(kind: string, prefix: string): { begin: string; end: string } {
  const first = `${packText(kind)}${fieldEnd}`;
  if (prefix === "") return { begin: first, end: first + last };
  if (!/[\ud800-\udbff]$/.test(prefix))
    return { begin: first + packText(prefix), end: first + packText(prefix) + last };
  return { begin: first + packText(`${prefix}\udc00`), end: first + packText(`${prefix}\udfff`) + last };
}

function byBytes(one: Doc, other: Doc): number {
  return Buffer.compare(Buffer.from(one.id), Buffer.from(other.id));
}

function idOf(field: string): string {
  return unpackText(field.slice(field.indexOf(fieldEnd) + 1));
}

function docsOf(flat: readonly string[]): Doc[] {
  return rowsOf<[string, string]>(flat, 2).map(([field, record]) => {
    const { version, dueAt, expiresAt, body } = readArgument("doc", record);
    return {
      kind: unpackText(field.slice(0, field.indexOf(fieldEnd))),
      id: idOf(field),
      version: Number(version),
      body: unpackText(body),
      dueAt: readNumber(dueAt),
      expiresAt: readNumber(expiresAt),
    };
  });
}
