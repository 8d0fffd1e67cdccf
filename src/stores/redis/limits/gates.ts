/** Gates (gate-calls.lua.ts): what a claim must pass, put under a version and read with what is held. */
import type { GateBounds } from "../../../model/limits/gate.ts";
import type { ReadGatesRequest } from "../../../store/operations.ts";
import type { Gate, GatePut } from "../../../store/records.ts";
import { putFields, readArgument, valueText } from "../packing/argument-text.ts";
import type { Operation } from "../connection/call.ts";
import { readHints } from "../feed/hint-text.ts";
import { dueText } from "../packing/next-text.ts";
import { eventText } from "../jobs/submit-text.ts";
import { packNullable, packText, readNumber, rowsOf, unpackText } from "../packing/value-text.ts";

export const putGates: Operation<"putGates"> = async (calls, puts) => {
  if (puts.length === 0) return [];
  const args = puts.flatMap(putTexts);
  const [hints, flat] = (await calls.connection.write("mr1_put_gates", args)) as [unknown, number[]];
  calls.hint(readHints(hints));
  return rowsOf<[number, number]>(flat, 2).map(([isPut, version]) => ({
    kind: isPut === 1 ? "ok" : "changed",
    version,
  }));
};

function putTexts(put: GatePut): string[] {
  const {
    key,
    guard,
    cap,
    rate,
    closed,
    isIntakeClosed,
    perKey = null,
    emptiesRate = false,
    body,
    emits,
  } = put;
  const values: Readonly<Record<(typeof putFields)[number], string>> = {
    ...{ cap: valueText(cap), stepUs: valueText(rate?.stepUs), burstUs: valueText(rate?.burstUs) },
    ...{ closed: closed === null ? "" : dueText(closed), isIntakeClosed: valueText(isIntakeClosed) },
    ...{
      emptiesRate: valueText(emptiesRate),
      perKey: perKey === null ? "" : "1",
      perCap: valueText(perKey?.cap),
    },
    ...{ perStepUs: valueText(perKey?.rate?.stepUs), perBurstUs: valueText(perKey?.rate?.burstUs) },
    ...{ body: packNullable(body), emits: eventText(emits) },
  };
  const version = guard === "any" ? guard : String(guard.version);
  return [packText(key), version, ...putFields.map((name) => values[name])];
}

export const readGates: Operation<"readGates"> = async ({ connection }, request) => {
  const args = "keys" in request ? ["1", ...new Set(request.keys.map(packText))] : pageTexts(request);
  type Answer = [at: string, stop: string, flat: string[]];
  const [at, stop, flat] = (await connection.read("mr1_read_gates", args)) as Answer;
  const gates = rowsOf<[string, string, string]>(flat, 3).map(gateOf);
  const cursor = stop === "" ? null : unpackText(stop);
  return { gates: "keys" in request ? gates.sort(byBytes) : gates, cursor, now: Number(at) };
};

/** An empty text is packed as a text that is there, and begins no other. */
function pageTexts({ prefix, after, max }: Extract<ReadGatesRequest, { prefix: string }>): string[] {
  return ["0", prefix === "" ? "" : packText(prefix), packNullable(after), String(max)];
}

function gateOf([key, held, record]: readonly [string, string, string]): Gate {
  const gate = readArgument("gate", record);
  const { version, tatUs, closedUntil, isIntakeClosed, perKey, body } = gate;
  return {
    ...{ key: unpackText(key), version: Number(version) },
    ...boundsOf(gate.cap, gate.stepUs, gate.burstUs),
    perKey: perKey === "" ? null : boundsOf(gate.perCap, gate.perStepUs, gate.perBurstUs),
    ...{ tatUs: Number(tatUs), closedUntil: readNumber(closedUntil), held: Number(held) },
    ...{ isIntakeClosed: isIntakeClosed === "1", body: body === "" ? null : unpackText(body) },
  };
}

function boundsOf(cap: string, stepUs: string, burstUs: string): GateBounds {
  const rate = stepUs === "" ? null : { stepUs: Number(stepUs), burstUs: Number(burstUs) };
  return { cap: readNumber(cap), rate };
}

function byBytes(one: Gate, other: Gate): number {
  return Buffer.compare(Buffer.from(one.key), Buffer.from(other.key));
}
