/** Documents (lua/docs.ts): versioned texts under a guard, for settings, terms and the caller's KV. */
import { untilMs } from "../../store/due-job.ts";
import { cursorOf, placeOfCursor } from "../../store/due-docs.ts";
import type {
  ClaimDocs,
  ClaimDocsAnswer,
  PutDocAnswer,
  ReadDocsAnswer,
  ReadDocsRequest,
} from "../../store/operations.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import { readArgument } from "./argument-text.ts";
import type { Calls, Operation } from "./call.ts";
import { docField, pushDoc } from "./submit-text.ts";
import { fieldEnd, packText, readNumber, rowsOf, unpackText } from "./text.ts";

/** How a request goes out: by a call of its own, or with others of its lap. */
type Send = (args: readonly string[]) => Promise<unknown>;

export const putDocs: Operation<"putDocs"> = ({ connection }, puts) =>
  putBy((args) => connection.write("mr1_put_docs", args), puts);

export const readDocs: Operation<"readDocs"> = ({ connection }, request) =>
  readBy((args) => connection.read("mr1_read_docs", args), request);

/** The documents of a claim: asked for in the same lap, they are one call with it (lap-call.ts). */
export async function docsInLap({ lap }: Calls, { puts, read }: ClaimDocs): Promise<ClaimDocsAnswer> {
  const putting = putBy((args) => lap.call("put_docs", args), puts);
  const reading = read === null ? null : readBy((args) => lap.call("read_docs", args), read);
  const [putAnswers, readAnswer] = await Promise.all([putting, reading]);
  return { puts: putAnswers, read: readAnswer };
}

async function putBy(send: Send, puts: readonly DocPut[]): Promise<PutDocAnswer[]> {
  if (puts.length === 0) return [];
  const args: string[] = [];
  for (const put of puts) pushDoc(args, put);
  const flat = (await send(args)) as number[];
  return rowsOf<[number, number]>(flat, 2).map(([isPut, version]) => ({
    kind: isPut === 1 ? "ok" : "changed",
    version,
  }));
}

async function readBy(send: Send, request: ReadDocsRequest): Promise<ReadDocsAnswer> {
  if ("ids" in request) {
    if (request.ids.length === 0) return { docs: [], cursor: null };
    const fields = [...new Set(request.ids)].map((id) => docField(request.kind, id));
    const [flat] = (await send(["1", ...fields])) as [string[]];
    return { docs: docsOf(flat).sort(byBytes), cursor: null };
  }
  const { kind, prefix, after, max } = request;
  const { begin, end } = rangeOf(kind, prefix);
  const behind = after === null ? null : docField(kind, after);
  const isInside = behind !== null && Buffer.compare(Buffer.from(behind), Buffer.from(begin)) >= 0;
  const from = isInside ? `(${behind}` : `[${begin}`;
  const args = ["0", from, `[${end}`, String(max)];
  const [flat, stop] = (await send(args)) as [string[], string];
  return { docs: docsOf(flat), cursor: stop === "" ? null : idOf(stop) };
}

export const readDueDocs: Operation<"readDueDocs"> = async ({ connection }, { max, cursor }) => {
  const { dueAt, kind, id } = placeOfCursor(cursor);
  const from = cursor === null ? ["", ""] : [String(dueAt), docField(kind, id)];
  type Answer = [at: string, clock: string, score: string, field: string, flat: string[]];
  const answer = (await connection.read("mr1_read_due_docs", [String(max), ...from])) as Answer;
  const [at, clock, score, , flat] = answer;
  const docs = docsOf(flat);
  const last = docs.at(-1);
  return {
    docs,
    cursor: score === "" || last === undefined ? null : cursorOf(last),
    now: Number(at),
    nextInMs: untilMs(readNumber(clock), Number(at)),
  };
};

/** No text in UTF-8 is behind the last character of Unicode, so that ends whatever has a prefix. */
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
