/**
 * What every operation needs: how to run a function of the store's schema, which time to give it, and where hints go.
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
  /** The quoted name of the schema. */
  readonly schema: string;
  /** The time of the platform's clock if a test asks for that; null for the database's. */
  now(): number | null;
  /** synchronous_commit for this call; null leaves the server's. */
  readonly commit: "on" | "off" | null;
  /** Whether the call runs inside the caller's transaction: it then only appends, and locks nothing shared. */
  readonly isInside: boolean;
  write(text: string, values: readonly Value[], timeoutMs?: number): Promise<Row[]>;
  read(text: string, values?: readonly Value[]): Promise<Row[]>;
  /** Hands out hints. `isAnnounced`: the call itself has notified the other processes. */
  emit(hints: Hints, isAnnounced?: boolean): void;
  /** Asks for the turn of a call that notifies the other processes itself. */
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
 * Calls a function that answers one text, because a table of columns costs the server a tenth of a small call.
 * Parameters are passed by name.
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
 * Makes a call whose items may be held up by locks (functions/each-item.sql.ts). If it waits too long, it is made once
 * more, carefully: with a savepoint for each item.
 */
export async function patiently<Answer>(call: (isCareful: boolean) => Promise<Answer>): Promise<Answer> {
  try {
    return await call(false);
  } catch (error) {
    if (!isMillraceError(error) || sqlState(error.cause) !== lockNotAvailable) throw error;
    return call(true);
  }
}

/** The answers in a row of each_v1. Its hints are handed out. */
export function answersOfEach<Answer>(calls: Calls, [now, answers, events, ready, defers]: Row): Answer[] {
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  if (defers === "t") hintDoc(hints, 0);
  hintEvents(hints, events ?? "", Number(now));
  calls.emit(hints);
  return JSON.parse(answers ?? "[]") as Answer[];
}

/**
 * Calls that do not wait for the disk. They may be lost in a crash of the server, because the epoch then grows
 * (decision 0012).
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

/** The text of a call is made once, because each call looks it up. */
const texts = new Map<string, string>();

function textOf(key: string, make: () => string): string {
  let text = texts.get(key);
  if (text === undefined) texts.set(key, (text = make()));
  return text;
}
