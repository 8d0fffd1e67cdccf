/**
 * The documents of metrics. Minutes are counted from the epoch, by the store's clock as well as a process knows it.
 *
 *   part/MINUTE/PROCESS-NUMBER   what one process counted in a part of the minute; written once, never changed
 *   minute/MINUTE                what all processes counted in the minute: made of parts, with the list of those taken
 *   totals                       all minutes up to one, added up for good; for counters that only ever grow
 *
 * Always true: a part counts iff the document of its minute does not list it, so that nothing is counted twice whoever
 * is killed between two writes, and a part that is written a second time behind its roll-up changes nothing.
 */
import type { MetricTable, PackedTable } from "../../model/metrics/metric-table.ts";
import type { PackedTotals } from "../../model/metrics/metric-totals.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";

export const metricKind = "metrics";
export const minuteMs = 60_000;
export const keptMs = 30 * 86_400_000;
export const partPrefix = "part/";
const minutePrefix = "minute/";
const totalsId = "totals";
const pageMax = 500;

export interface MinuteBody {
  readonly taken: readonly string[];
  readonly table: PackedTable;
}

export interface TotalsBody {
  /** The last minute that is in. */
  readonly upTo: number;
  readonly totals: PackedTotals;
}

/** In byte order as in time. */
const minuteText = (minute: number): string => String(minute).padStart(10, "0");

export function partPut(minute: number, part: string, table: PackedTable): DocPut {
  const id = `${partPrefix}${minuteText(minute)}/${part}`;
  return { kind: metricKind, id, body: JSON.stringify(table), guard: "absent", expiresInMs: keptMs };
}

export function minuteOfPart({ id }: Doc): number {
  return Number(id.slice(partPrefix.length, id.lastIndexOf("/")));
}

export function partOf({ id }: Doc): string {
  return id.slice(id.lastIndexOf("/") + 1);
}

export const minuteId = (minute: number): string => `${minutePrefix}${minuteText(minute)}`;
const minuteOf = ({ id }: Doc): number => Number(id.slice(minutePrefix.length));

export function minutePut(minute: number, body: MinuteBody, version: number, ageMs: number): DocPut {
  return {
    kind: metricKind,
    id: minuteId(minute),
    body: JSON.stringify(body),
    guard: version === 0 ? "absent" : { version },
    expiresInMs: Math.max(minuteMs, keptMs - ageMs),
  };
}

export function totalsPut(body: TotalsBody, version: number): DocPut {
  const guard = version === 0 ? ("absent" as const) : { version };
  return { kind: metricKind, id: totalsId, body: JSON.stringify(body), guard };
}

/** Null where there is none, or none that can be read: then all that is kept is added up anew. */
export async function readTotals(
  store: Pick<Store, "readDocs">,
): Promise<{ readonly body: TotalsBody | null; readonly version: number }> {
  const { docs } = await store.readDocs({ kind: metricKind, ids: [totalsId] });
  const [doc] = docs;
  return doc === undefined
    ? { body: null, version: 0 }
    : { body: readJson<TotalsBody>(doc), version: doc.version };
}

export interface MinuteDoc {
  readonly minute: number;
  /** Null where it cannot be read. */
  readonly body: MinuteBody | null;
  readonly version: number;
}

export const readMinuteDoc = (doc: Doc): MinuteDoc => ({
  minute: minuteOf(doc),
  body: readJson<MinuteBody>(doc),
  version: doc.version,
});

/** Both ends included. */
export interface MinuteRange {
  readonly from: number;
  readonly to: number;
}

/**
 * The rolled-up minutes, in order.
 * @param passesOver leaves out those in partitions that fail, instead of failing.
 */
export async function* minuteDocs(
  store: Pick<Store, "readDocs">,
  { from, to }: MinuteRange,
  passesOver = false,
): AsyncGenerator<MinuteDoc, void, undefined> {
  const after = from <= 0 ? null : minuteId(from - 1);
  for await (const doc of docsBehind(store, { prefix: minutePrefix, after, passesOver })) {
    if (minuteOf(doc) > to) return;
    yield readMinuteDoc(doc);
  }
}

/**
 * What processes have written and nobody has rolled up, by minute. What lies in partitions that fail is left out.
 * @param max after N minutes the list ends; the last one is whole.
 */
export async function readParts(
  store: Pick<Store, "readDocs">,
  { from, to }: MinuteRange,
  max = Number.POSITIVE_INFINITY,
): Promise<Map<number, Doc[]>> {
  const parts = new Map<number, Doc[]>();
  let count = 0;
  const after = from <= 0 ? null : `${partPrefix}${minuteText(from)}`;
  for await (const doc of docsBehind(store, { prefix: partPrefix, after, passesOver: true })) {
    const minute = minuteOfPart(doc);
    const list = parts.get(minute);
    if (minute > to || (count >= max && list === undefined)) break;
    count += 1;
    if (list === undefined) parts.set(minute, [doc]);
    else list.push(doc);
  }
  return parts;
}

async function* docsBehind(
  store: Pick<Store, "readDocs">,
  given: { readonly prefix: string; readonly after: string | null; readonly passesOver: boolean },
): AsyncGenerator<Doc, void, undefined> {
  let { after } = given;
  do {
    const request = { kind: metricKind, ...given, after, max: pageMax };
    const page: Awaited<ReturnType<Store["readDocs"]>> = await store.readDocs(request);
    yield* page.docs;
    after = page.cursor;
  } while (after !== null);
}

/** The tables of a minute: what was rolled up, and the parts that are not in there. */
export function* tablesOf(
  rolled: MinuteBody | null,
  parts: readonly Doc[],
): Generator<PackedTable, void, undefined> {
  if (rolled !== null) yield rolled.table;
  const taken = new Set(rolled?.taken);
  for (const doc of parts) {
    const table = taken.has(partOf(doc)) ? null : readJson<PackedTable>(doc);
    if (table !== null) yield table;
  }
}

/** Adds what can be read of these. @param wants which series; all where left out. */
export function absorbAll(
  table: MetricTable,
  tables: Iterable<PackedTable>,
  wants?: (queue: string, name: string) => boolean,
): MetricTable {
  for (const packed of tables) {
    try {
      table.absorb(packed, wants);
    } catch {
      // Damaged, or of a later version: what it counted is lost, the rest is answered.
    }
  }
  return table;
}

/**
 * Every minute of the range that has something, in order, with its tables. For people: what lies in partitions that
 * fail is left out.
 */
export async function* readMinutes(
  store: Pick<Store, "readDocs">,
  range: MinuteRange,
): AsyncGenerator<readonly [minute: number, tables: Iterable<PackedTable>], void, undefined> {
  // The parts first: one that is rolled up meanwhile is then in the list of its minute, and is not counted twice.
  const parts = await readParts(store, range);
  const partsBefore = function* (minute: number): Generator<readonly [number, Iterable<PackedTable>]> {
    for (const each of [...parts.keys()].filter((part) => part < minute).sort((a, b) => a - b)) {
      yield [each, tablesOf(null, parts.get(each) ?? [])];
      parts.delete(each);
    }
  };
  for await (const { minute, body } of minuteDocs(store, range, true)) {
    yield* partsBefore(minute);
    yield [minute, tablesOf(body, parts.get(minute) ?? [])];
    parts.delete(minute);
  }
  yield* partsBefore(Number.POSITIVE_INFINITY);
}

function readJson<Body>({ body }: Doc): Body | null {
  try {
    return JSON.parse(body) as Body;
  } catch {
    return null;
  }
}
