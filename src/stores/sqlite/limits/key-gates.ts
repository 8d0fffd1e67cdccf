/**
 * Gates of keys (rule R7, model/routing/lane.ts). What is held of one is counted in millrace_permit, in the step that
 * writes the job which takes or leaves it; its token time stands beside the count. Its bounds are those of its own put,
 * else those that its limit has for each key; a job's own cap comes with the job.
 */
import type { GateState } from "../../../model/limits/gate.ts";
import { gateOfLimit } from "../../../model/routing/lane.ts";
import type { Gate } from "../../../store/records.ts";
import { openRowSets, readValue, runRowSets } from "../connection/connection.ts";
import type { SqlValue, Statements } from "../connection/connection.ts";
import { readGate } from "./gates.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** Input: key. */
const readPermit = "SELECT held, tat_us, opens_at FROM millrace_permit WHERE key = ?";
/** Inputs: key, change. */
const addHeld = heldSql("VALUES (?, ?, 0)");
/** Inputs: the same of each row. Many at once take half the time of one by one. */
const addHelds = openRowSets(
  "key, change",
  (set) => `WITH ${set} ${heldSql("SELECT key, change, 0 FROM e WHERE true")}`,
  addHeld,
);
/** Of a row that says nothing but that so much is held. */
const isSpent = "held = @back AND tat_us <= @nowUs AND opens_at IS NULL";
/** Inputs: key, now in us. A row that says nothing goes. */
const dropIdle = sql`DELETE FROM millrace_permit WHERE key = ? AND held = 0 AND tat_us <= ? AND opens_at IS NULL`;
/**
 * Inputs: now in us, how much of each is given back; the keys. A row that says nothing behind it goes. By key and what
 * is given back, as pairs, it takes 1.2 us a row, one by one 0.8, so 0.5.
 */
const dropLasts = openRowSets(
  "key",
  (set) => `WITH ${set} DELETE FROM millrace_permit WHERE key IN (SELECT key FROM e) AND ${isSpent}`,
  sql`DELETE FROM millrace_permit WHERE ${isSpent} AND key = ?`,
);
/** Inputs: how much of it is given back, key. */
const takeHeld = "UPDATE millrace_permit SET held = held - ? WHERE key = ?";
/** Inputs: key, token time. */
const setToken = sql`INSERT INTO millrace_permit (key, held, tat_us) VALUES (?, 0, ?)
  ON CONFLICT (key) DO UPDATE SET tat_us = max(tat_us, excluded.tat_us)`;

function heldSql(rows: string): string {
  return sql`INSERT INTO millrace_permit (key, held, tat_us) ${rows}
    ON CONFLICT (key) DO UPDATE SET held = held + excluded.held`;
}

interface KeyState extends GateState {
  /** When its clock lets lanes that wait there pass; null where none wait for it. */
  readonly opensAt: number | null;
}

type PermitRow = readonly [held: number, tatUs: number, opensAt: number | null];
const nothing: PermitRow = [0, 0, null];

function stateOf(
  statements: Statements,
  key: string,
  { put, limit }: { readonly put: Gate | null; readonly limit: Gate | null },
): KeyState {
  const [held, tatUs, opensAt] = (statements(readPermit).get(key) ?? nothing) as PermitRow;
  const perKey = limit?.perKey ?? null;
  return {
    cap: put?.cap ?? perKey?.cap ?? null,
    rate: put?.rate ?? perKey?.rate ?? null,
    closedUntil: put?.closedUntil ?? null,
    tatUs,
    held,
    opensAt,
  };
}

/** No input. Whether the gate of any key was put: few ever are. */
const hasPuts = "SELECT 1 FROM millrace_gate WHERE instr(key, char(9)) > 0 LIMIT 1";

export type KeyStates = (key: string) => KeyState;

/** Reads the states of keys for one call, which meets the same limits again and again. */
export function openKeyStates(statements: Statements, isGated: boolean): KeyStates {
  const limits = new Map<string, Gate | null>();
  let isAnyPut: boolean | null = isGated ? null : false;
  return (key) => {
    if (!isGated) return stateOf(statements, key, { put: null, limit: null });
    const name = gateOfLimit(key);
    let limit = limits.get(name);
    if (limit === undefined) limits.set(name, (limit = readGate(statements, name)));
    isAnyPut ??= readValue(statements, hasPuts) !== null;
    return stateOf(statements, key, { put: isAnyPut ? readGate(statements, key) : null, limit });
  };
}

function keyState(statements: Statements, key: string): KeyState {
  const [put, limit] = [readGate(statements, key), readGate(statements, gateOfLimit(key))];
  return stateOf(statements, key, { put, limit });
}

/** As it is shown; null for one that was never put, of which nothing is held and no token is spent. */
export function keyGate(
  { statements, now }: Pick<Step, "statements" | "now">,
  key: string,
  put: Gate | null,
): Gate | null {
  const limit = readGate(statements, gateOfLimit(key));
  const { opensAt: _opens, ...state } = stateOf(statements, key, { put, limit });
  const tatUs = state.tatUs > now * 1000 ? state.tatUs : 0;
  if (put === null && state.held === 0 && tatUs === 0) return null;
  const { version = 0, isIntakeClosed = false, body = null } = put ?? {};
  return { ...state, key, version, isIntakeClosed, perKey: null, body, tatUs };
}

/** @param changes how much more (or less) is held, by key. */
export function addPermits(
  statements: Statements,
  changes: Iterable<readonly [key: string, change: number]>,
  now: number,
): void {
  const more: SqlValue[] = [];
  const backs = new Map<number, string[]>();
  for (const [key, change] of changes) {
    if (change > 0) more.push(key, change);
    else if (change < 0) {
      const keys = backs.get(-change);
      if (keys === undefined) backs.set(-change, [key]);
      else keys.push(key);
    }
  }
  for (const [back, keys] of backs) giveBack(statements, keys, { back, nowUs: now * 1000 });
  runRowSets(statements, addHelds, { values: more, width: 2 });
}

/** Most keys give back the only permit that they gave, and their rows go: of those that are left less is held. */
function giveBack(
  statements: Statements,
  keys: readonly string[],
  named: { readonly back: number; readonly nowUs: number },
): void {
  const dropped = runRowSets(statements, dropLasts, { values: keys, width: 1 }, () => named);
  if (dropped === keys.length) return;
  for (const key of keys) statements(takeHeld).run(named.back, key);
}

export function moveKeyToken(statements: Statements, key: string, tatUs: number): void {
  statements(setToken).run(key, tatUs);
}

/** Takes all tokens that are there. */
export function emptyRateOfKey({ statements, now }: Step, key: string): void {
  const { rate } = keyState(statements, key);
  if (rate !== null) moveKeyToken(statements, key, now * 1000 + rate.burstUs);
}

/** Inputs: key, time. */
const setOpens = sql`INSERT INTO millrace_permit (key, held, tat_us, opens_at) VALUES (?, 0, 0, ?)
  ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at`;
/** Input: now. Answer: gates at which lanes wait for a clock that has rung. */
const readRung = "SELECT key FROM millrace_permit WHERE opens_at IS NOT NULL AND opens_at <= ? LIMIT 1000";
const readNext = "SELECT min(opens_at) FROM millrace_permit WHERE opens_at IS NOT NULL";

/** When the clock of a gate at which lanes wait lets somebody pass; null where no clock does. */
export function setKeyClock(statements: Statements, key: string, at: number | null, now: number): void {
  if (at !== null) statements(setOpens).run(key, at);
  else if (
    Number(
      statements("UPDATE millrace_permit SET opens_at = NULL WHERE key = ? AND opens_at IS NOT NULL").run(key)
        .changes,
    ) > 0
  )
    statements(dropIdle).run(key, now * 1000);
}

/** Their clocks are taken away: lanes may have left meanwhile, and one that rings for nobody would ring for ever. */
export function takeRungKeys({ statements, now }: Step): string[] {
  const keys = (statements(readRung).all(now) as [key: string][]).map(([key]) => key);
  for (const key of keys) setKeyClock(statements, key, null, now);
  return keys;
}

export function nextKeyClock(statements: Statements): number | null {
  return readValue(statements, readNext);
}
