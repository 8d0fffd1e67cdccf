/**
 * Gates (rule R7; the rule itself is store/rules/gates/admit.ts). A route is listed under the key of each gate that it
 * has to pass, its queue's included, whether such a gate was put or not: so a gate that is put later holds for what
 * waits already, and what it holds follows from the state counts of its routes.
 */
import { gatesToPass } from "../../../model/limits/gate.ts";
import { isKeyedGate } from "../../../model/routing/lane.ts";
import type { GateBounds, GateState } from "../../../model/limits/gate.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { GatePutAnswer, ReadGatesAnswer, ReadGatesRequest } from "../../../store/operations.ts";
import type { Gate, GatePut } from "../../../store/records.ts";
import { bundleOfPut } from "../../../store/packing/packed-events.ts";
import { Admission } from "../../../store/rules/gates/admit.ts";
import { putGate } from "../../../store/rules/gates/put-gate.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { emptyRateOfKey, keyGate, moveKeyToken, openKeyStates } from "./key-gates.ts";
import { releaseAfterPut } from "../groups/waiting-lanes.ts";
import { laned, readLanedRoutes, readRoute } from "../jobs/routes.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

type GateRow = [
  key: string,
  version: number,
  cap: number | null,
  stepUs: number | null,
  burstUs: number | null,
  tatUs: number,
  closedUntil: number | null,
  isIntakeClosed: number,
  perKey: string | null,
  body: string | null,
  held: number,
];

/** Permits held by what runs on the routes of a gate. */
const held = `(SELECT coalesce(sum(r.weight * t.count), 0) FROM millrace_gate_route r
  JOIN millrace_state_count t ON t.route = r.route AND t.state = ${stateCodes.running} WHERE r.key = g.key)`;
const columns = `key, version, cap, step_us, burst_us, tat_us, closed_until, is_intake_closed, per_key, body, ${held}`;
/** Input: key. */
const readOne = sql`SELECT ${columns} FROM millrace_gate g WHERE key = ?`;
/** Input: a JSON list of keys. Answer: in byte order. */
const readNamed = sql`SELECT ${columns} FROM millrace_gate g
  WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key`;
/** Inputs: first key, key to go on after, limit. Answer: in byte order. */
const readRange = sql`SELECT ${columns} FROM millrace_gate g WHERE key >= ? AND key > ? ORDER BY key ${limitTo("?")}`;
/** Inputs: the whole row but what is held. */
const writeRow = sql`INSERT OR REPLACE INTO millrace_gate
  (key, version, cap, step_us, burst_us, tat_us, closed_until, is_intake_closed, per_key, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
/** Inputs: token time, key. */
const moveToken = "UPDATE millrace_gate SET tat_us = ? WHERE key = ?";
/** Input: key. */
const readRoutesOf = "SELECT route FROM millrace_gate_route WHERE key = ?";
const hasAny = "SELECT 1 FROM millrace_gate LIMIT 1";
const hasCap = "SELECT 1 FROM millrace_gate WHERE cap IS NOT NULL LIMIT 1";
const readClosedIntake = "SELECT key FROM millrace_gate WHERE is_intake_closed = 1";
/** Input: route. Answer: the routes that share a gate with a cap with it, itself among them. */
const readSharing = sql`SELECT DISTINCT other.route FROM millrace_gate_route own
  JOIN millrace_gate g ON g.key = own.key AND g.cap IS NOT NULL
  JOIN millrace_gate_route other ON other.key = own.key WHERE own.route = ?`;

export function putGates(step: Step, puts: readonly GatePut[]): GatePutAnswer[] {
  const { statements, now } = step;
  return puts.map((put) => {
    const outcome = putGate(readGate(statements, put.key), put, now);
    if (outcome.kind === "changed") return outcome;
    const { key, version, cap, rate, tatUs, closedUntil, isIntakeClosed, perKey, body } = outcome.gate;
    const rates = [rate?.stepUs ?? null, rate?.burstUs ?? null] as const;
    const bounds = perKey === null ? null : JSON.stringify(perKey);
    statements(writeRow).run(
      key,
      version,
      cap,
      ...rates,
      tatUs,
      closedUntil,
      Number(isIntakeClosed),
      bounds,
      body,
    );
    if (put.emits !== undefined) step.events.push(bundleOfPut(put.emits));
    for (const [route] of statements(readRoutesOf).all(key) as [route: number][]) step.woken.add(route);
    if (put.emptiesRate === true && isKeyedGate(key)) emptyRateOfKey(step, key);
    for (const route of releaseAfterPut(step, key)) step.woken.add(route);
    return { kind: "ok", version };
  });
}

export function readGates({ statements, now }: Step, request: ReadGatesRequest): ReadGatesAnswer {
  const shown = (put: Gate | null, key: string): Gate | null =>
    isKeyedGate(key) ? keyGate({ statements, now }, key, put) : put;
  if ("keys" in request) {
    const rows = statements(readNamed).all(JSON.stringify(request.keys)) as GateRow[];
    const put = new Map(rows.map((row) => [row[0], gateOf(row)]));
    const gates = [...new Set(request.keys)].flatMap((key) => shown(put.get(key) ?? null, key) ?? []);
    return { gates: gates.sort((one, other) => compareBytes(one.key, other.key)), cursor: null, now };
  }
  const { prefix, after, max } = request;
  const rows = statements(readRange).all(prefix, after ?? "", max + 1) as GateRow[];
  const found = rows.map(gateOf).filter(({ key }) => key.startsWith(prefix));
  const gates = found.slice(0, max).map((gate) => shown(gate, gate.key) ?? gate);
  return { gates, cursor: found.length > max ? (gates.at(-1)?.key ?? null) : null, now };
}

const compareBytes = (one: string, other: string): number =>
  Buffer.compare(Buffer.from(one), Buffer.from(other));

export function readGate(statements: Statements, key: string): Gate | null {
  const row = statements(readOne).get(key) as GateRow | undefined;
  return row === undefined ? null : gateOf(row);
}

function gateOf([
  key,
  version,
  cap,
  stepUs,
  burstUs,
  tatUs,
  closedUntil,
  isIntakeClosed,
  perKey,
  body,
  permits,
]: GateRow): Gate {
  const rate = stepUs === null || burstUs === null ? null : { stepUs, burstUs };
  const held = { held: permits, isIntakeClosed: isIntakeClosed === 1 };
  const bounds = perKey === null ? null : (JSON.parse(perKey) as GateBounds);
  return { key, version, cap, rate, tatUs, closedUntil, ...held, perKey: bounds, body };
}

/** What decides who passes in a claim; null where there is no gate at all and no job asks for that of a key. */
export function openAdmission({ statements, commit, now }: Step, asksForKeys: boolean): Admission | null {
  const isGated = readValue(statements, hasAny) !== null;
  if (!isGated && !asksForKeys) return null;
  const stateOfKey = openKeyStates(statements, isGated);
  return new Admission(
    {
      usesOf(route) {
        const content = isGated ? readRoute(statements, commit.routes, route) : null;
        return content === null ? [] : gatesToPass(content);
      },
      stateOf: (key): GateState | null => (isKeyedGate(key) ? stateOfKey(key) : readGate(statements, key)),
    },
    now,
  );
}

export function moveTokens({ statements }: Step, { moved }: Admission): void {
  for (const { key, tatUs } of moved) {
    if (isKeyedGate(key)) moveKeyToken(statements, key, tatUs);
    else statements(moveToken).run(tatUs, key);
  }
}

/** The keys of queues that take no new work. */
export function readClosedIntakes({ statements }: Step): ReadonlySet<string> {
  return new Set((statements(readClosedIntake).all() as [key: string][]).map(([key]) => key));
}

/** The routes on which somebody may pass now that jobs have left `running` on these. */
export function routesFreed(statements: Statements, routes: Iterable<number>): Set<number> {
  const left = new Set(routes);
  // The next of a lane may stand on any route that has lanes.
  const lanes = readLanedRoutes(statements);
  const freed = [...lanes].some((route) => left.has(route)) ? lanes : new Set<number>();
  if (readValue(statements, hasCap) === null) return freed;
  for (const route of left)
    for (const [each] of statements(readSharing).all(route) as [route: number][]) freed.add(each);
  return freed;
}

/** No input. Answer: grows with every put. */
export const sumVersions = "SELECT coalesce(sum(version), 0) FROM millrace_gate";
/** No input. Answer: the routes of all gates that were put, and those whose lanes may wait at gates of keys. */
export const readAllRoutes = sql`SELECT r.route FROM millrace_gate g JOIN millrace_gate_route r ON r.key = g.key
  UNION ${laned}`;
