/**
 * Gates (limits/gates.sql.ts): claims must pass them. They are put under a version, and read with the permits that are
 * held.
 */
import type { TokenRate } from "../../../model/limits/gate.ts";
import type { GatePutAnswer, ReadGatesAnswer, ReadGatesRequest } from "../../../store/operations.ts";
import { emptyHints } from "../../../store/watch/hints.ts";
import { bundleOfPut, packEvents } from "../../../store/packing/packed-events.ts";
import type { Gate, GatePut } from "../../../store/records.ts";
import { callRead, callWrite, onlyRow, patiently } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Value } from "../connection/database.ts";
import { packNullable, packText, readNumbers, unpackText } from "../functions/packed-values.ts";

export async function putGates(calls: Calls, puts: readonly GatePut[]): Promise<GatePutAnswer[]> {
  if (puts.length === 0) return [];
  const packed = JSON.stringify(puts.map(packPut));
  const [answers, ready] = await patiently(async (isCareful) =>
    onlyRow(await callWrite(calls, "put_gates_v1", [packed, isCareful])),
  );
  const hints = emptyHints();
  for (const route of readNumbers(ready ?? null)) hints.routes.add(route);
  hints.hasEmitted = puts.some(({ emits }) => emits !== undefined);
  calls.emit(hints);
  return JSON.parse(answers as string) as GatePutAnswer[];
}

function packPut({ key, guard, body, perKey = null, emits, ...put }: GatePut): object {
  return {
    ...put,
    emits: emits && packEvents([bundleOfPut(emits)]),
    perKey,
    key: packText(key),
    guard: guard === "any" ? null : guard.version,
    body: packNullable(body),
  };
}

export async function readGates(calls: Calls, request: ReadGatesRequest): Promise<ReadGatesAnswer> {
  const read = async (...which: Value[]): Promise<{ now: number; gates: Gate[] }> => {
    const [now, gates] = onlyRow(await callRead(calls, "read_gates_v1", [calls.now(), ...which]));
    return { now: Number(now), gates: (JSON.parse(gates as string) as GateRow[]).map(gateOf) };
  };
  if ("keys" in request) {
    const keys = [...new Set(request.keys)].map(packText);
    return { ...(await read(keys, null, null, null)), cursor: null };
  }
  const { prefix, after, max } = request;
  const first = prefix === "" ? "" : packText(prefix);
  const { now, gates } = await read(null, first, packNullable(after), max + 1);
  // Keys with the prefix are adjacent in byte order, so the first key without it ends them.
  const found = gates.filter(({ key }) => key.startsWith(prefix));
  const page = found.slice(0, max);
  return { gates: page, cursor: found.length > max ? (page.at(-1)?.key ?? null) : null, now };
}

interface GateRow {
  readonly key: string;
  readonly version: number;
  readonly cap: number | null;
  readonly step_us: number | null;
  readonly burst_us: number | null;
  readonly tat_us: number;
  readonly closed_until: number | null;
  readonly is_intake_closed: boolean;
  readonly body: string | null;
  readonly held: number;
  readonly has_keys: boolean;
  readonly key_cap: number | null;
  readonly key_step_us: number | null;
  readonly key_burst_us: number | null;
}

function gateOf({ key, version, cap, body, held, ...row }: GateRow): Gate {
  const { step_us: stepUs, burst_us: burstUs } = row;
  const { has_keys: hasKeys, key_cap: keyCap, key_step_us: keyStepUs, key_burst_us: keyBurstUs } = row;
  return {
    ...{ key: unpackText(key), version, cap, held },
    rate: rateOf(stepUs, burstUs),
    perKey: hasKeys ? { cap: keyCap, rate: rateOf(keyStepUs, keyBurstUs) } : null,
    tatUs: row.tat_us,
    closedUntil: row.closed_until,
    isIntakeClosed: row.is_intake_closed,
    body: body === null ? null : unpackText(body),
  };
}

const rateOf = (stepUs: number | null, burstUs: number | null): TokenRate | null =>
  stepUs === null || burstUs === null ? null : { stepUs, burstUs };
