/**
 * What every operation needs: how to run a function of the store's schema, what time to give it, and where hints go.
 */
import { isMillraceError } from "../../../model/error.ts";
import { emptyHints, hintDoc } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import { hintEvents } from "../../../store/packing/packed-events.ts";
import type { Ride } from "../feed/announce.ts";
import type { Row, Value } from "../connection/database.ts";
import { lockNotAvailable, sqlState } from "../connection/errors.ts";
import { readNumbers } from "./packed-values.ts";

export interface Calls {
  /** Quoted. */
  readonly schema: string;
  /** The time by the platform's clock where a test asks for that; null for the database's. */
  now(): number | null;
  /** synchronous_commit for this call; null leaves the server's. */
  readonly commit: "on" | "off" | null;
  /** True inside the caller's transaction: only appends, nothing shared is locked. */
  readonly isInside: boolean;
  write(text: string, values: readonly Value[], timeoutMs?: number): Promise<Row[]>;
  read(text: string, values?: readonly Value[]): Promise<Row[]>;
  /** isAnnounced: the others know already, from the call itself. */
  emit(hints: Hints, isAnnounced?: boolean): void;
  /** For a call that would tell the others itself. */
  ride(): Ride | null;
}

function callText(schema: string, name: string, count: number): string {
  return textOf(`${schema}.${name}(${count}`, () => {
    const places = Array.from({ length: count }, (_, index) => `$${index + 1}`);
    return `SELECT * FROM ${schema}.${name}(${places.join(", ")})`;
  });
}

/** A function is always called with the same parameters in the same order. */
function namedText(schema: string, name: string, values: object): string {
  return textOf(`${schema}.${name}`, () => {
    const given = Object.keys(values).map((parameter, index) => `${parameter} => $${index + 1}`);
    return `SELECT ${schema}.${name}(${given.join(", ")})`;
  });
}

export function callWrite(
  calls: Calls,
  name: string,
  values: readonly Value[],
  timeoutMs?: number,
): Promise<Row[]> {
  const all = [calls.now(), calls.commit, ...values];
  return calls.write(callText(calls.schema, name, all.length), all, timeoutMs);
}

/**
 * For a function that answers one text: a table of columns costs the server a tenth of a small call. Parameters by
 * their names.
 */
export async function callScalar(
  calls: Calls,
  name: string,
  values: Readonly<Record<string, Value>>,
): Promise<string> {
  const all = { p_now: calls.now(), p_commit: calls.commit, ...values };
  const rows = await calls.write(namedText(calls.schema, name, all), Object.values(all));
  return onlyRow(rows)[0] as string;
}

/**
 * A call of items that may be held up (functions/each-item.sql.ts): where it waits too long it is made once more,
 * carefully.
 */
export async function patiently<Answer>(call: (isCareful: boolean) => Promise<Answer>): Promise<Answer> {
  try {
    return await call(false);
  } catch (error) {
    if (!isMillraceError(error) || sqlState(error.cause) !== lockNotAvailable) throw error;
    return call(true);
  }
}

/** Items of one kind, each by the function of this name. */
export async function callEach<Answer>(
  calls: Calls,
  name: string,
  items: readonly object[],
): Promise<Answer[]> {
  if (items.length === 0) return [];
  return answersOfEach(
    calls,
    await patiently(async (isCareful) => {
      const packed = items.map((item) => ({ ...item, isLate: isCareful }));
      return onlyRow(await callWrite(calls, "each_v1", [name, JSON.stringify(packed)]));
    }),
  );
}

/** Of a row as each_v1 answers it; its hints are told. */
export function answersOfEach<Answer>(calls: Calls, [now, answers, events, ready, defers]: Row): Answer[] {
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  if (defers === "t") hintDoc(hints, 0);
  hintEvents(hints, events ?? "", Number(now));
  calls.emit(hints);
  return JSON.parse(answers ?? "[]") as Answer[];
}

/**
 * For what may go with a crash of the server, because the epoch then says so (decision 0012): nobody waits for the
 * disk.
 */
export function lightly(calls: Calls): Calls {
  return { ...calls, commit: "off" };
}

export function callRead(calls: Calls, name: string, values: readonly Value[]): Promise<Row[]> {
  return calls.read(callText(calls.schema, name, values.length), values);
}

export function onlyRow(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error("the database answered no row");
  return row;
}

/** Made once: the text of a call is looked up with each of them. */
const texts = new Map<string, string>();

function textOf(key: string, make: () => string): string {
  let text = texts.get(key);
  if (text === undefined) texts.set(key, (text = make()));
  return text;
}
