/**
 * The names of the objects under a bucket's prefix:
 *
 *   millrace             layout version and page size, written once when the store is made
 *   log/<n>              what the n-th put of the log wrote: pages of the SQLite file, or a change of the writer
 *   chunk/<no>-<n>       256 pages of the file, as a checkpoint that began after log record n found them
 *   mark/<10^12 - n>     a checkpoint: which chunks, and from where on the log has to be applied
 *   kept/<n>/...         what a restore threw away: a bucket of its own, with these same names; a person removes it
 *
 * Numbers have twelve digits, so that names sort like numbers. Marks count down: the newest one is the first of its
 * list, and one LIST finds it however many there are.
 */
import { crc32 } from "node:zlib";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import type { Objects } from "./objects/objects.ts";

export const layoutVersion = 1;
export const headName = "millrace";
export const pagesPerChunk = 256;

const digits = 12;
const numberMax = 10 ** digits;
const padded = (value: number): string => String(value).padStart(digits, "0");

export const logName = (n: number): string => `log/${padded(n)}`;
export const chunkName = (no: number, n: number): string => `chunk/${padded(no)}-${padded(n)}`;
export const markName = (n: number): string => `mark/${padded(numberMax - n)}`;

export const logPrefix = "log/";
export const chunkPrefix = "chunk/";
export const markPrefix = "mark/";
export const keptPrefix = (n: number): string => `kept/${padded(n)}/`;

/** The number in the name of a log record or a mark. */
export function numberOf(name: string): number {
  const written = Number(name.slice(name.indexOf("/") + 1));
  return name.startsWith(markPrefix) ? numberMax - written : written;
}

/** Whether there is a mark of this record or a later one: its slot may have been used and removed again. */
export async function isPassed(objects: Pick<Objects, "list">, n: number): Promise<boolean> {
  const { names } = await objects.list(markPrefix, null);
  return names[0] !== undefined && numberOf(names[0]) >= n;
}

export function chunkOf(name: string): { readonly no: number; readonly n: number } {
  const [no, n] = name.slice(chunkPrefix.length).split("-", 2).map(Number) as [number, number];
  return { no, n };
}

/** What the object `millrace` says. */
export interface Head {
  readonly layout: number;
  readonly pageSize: number;
  readonly madeAt: number;
}

export interface Mark {
  /** Records after this one have to be applied to the chunks. */
  readonly from: number;
  /** Only after this one the file is consistent; the mark's own number. */
  readonly through: number;
  readonly epoch: number;
  readonly writer: string;
  /** What the writer's fence says of its process. */
  readonly note: string;
  /** Of the record `from`, for the chain of the next one. */
  readonly digest: string;
  /** Of the writer's clock, for the clean-up. */
  readonly at: number;
  readonly pageCount: number;
  /** By the number of the chunk: the label it was put under, and its checksum. */
  readonly chunks: readonly (readonly [label: number, crc: number])[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const headBytes = (head: Head): Uint8Array => encoder.encode(JSON.stringify(head));

/** One line of JSON after its checksum. */
export function markBytes(mark: Mark): Uint8Array {
  const text = encoder.encode(JSON.stringify(mark));
  return Buffer.concat([encoder.encode(`${crc32(text)}\n`), text]);
}

export function headFrom(bytes: Uint8Array): Head {
  const head = (jsonFrom<Head | null>(bytes, headName) ?? {}) as Head;
  if (!Number.isInteger(head.layout) || !Number.isInteger(Math.log2(head.pageSize)))
    throw damaged(headName, "it names no layout or no page size");
  if (head.layout > layoutVersion) {
    const sentence = `The bucket has the layout of a newer Millrace (version ${head.layout}, this one knows ${layoutVersion}). Upgrade this process.`;
    throw new MillraceError("schema-newer", sentence);
  }
  return head;
}

export function markFrom(bytes: Uint8Array, name: string): Mark {
  const end = bytes.indexOf(10);
  const text = bytes.subarray(end + 1);
  if (decoder.decode(bytes.subarray(0, Math.max(0, end))) !== String(crc32(text)))
    throw damaged(name, "its checksum is wrong");
  return jsonFrom<Mark>(text, name);
}

function jsonFrom<T>(bytes: Uint8Array, name: string): T {
  try {
    return JSON.parse(decoder.decode(bytes)) as T;
  } catch (cause) {
    throw damaged(name, "it is no JSON", cause);
  }
}

/** The object that an error of `damaged` names; null for any other error. */
export function damagedObject(error: unknown): string | null {
  if (!isMillraceError(error, "store-corrupt")) return null;
  return /^The object (\S+) of the bucket is damaged/.exec(error.message)?.[1] ?? null;
}

/** What to do depends on the object: a chunk or a mark costs nothing as long as an older mark and the log are there. */
export function damaged(name: string, why: string, cause?: unknown): MillraceError {
  const sentence = `The object ${name} of the bucket is damaged (${why}). ${adviceFor(name)}`;
  return new MillraceError("store-corrupt", sentence, { cause });
}

function adviceFor(name: string): string {
  if (name === headName)
    return "Remove this one object: the next process that opens the store to write makes it anew.";
  if (name.startsWith(logPrefix))
    return `Restore the store up to the record before it: millrace restore --until ${numberOf(name) - 1}.`;
  return "An older checkpoint and the log give the same store: see millrace restore --list.";
}
