/**
 * Which ready jobs are held back, and by what: read for the jobs that somebody looks at, one call for all of them. A job
 * knows its limits by its policy.
 */
import type { Engine } from "../engine/engine.ts";
import { limitGateKey, queueGateKey } from "../model/gate.ts";
import { heldBack } from "../model/held.ts";
import type { HeldBack } from "../model/held.ts";
import type { JobRecord } from "../store/records.ts";
import { unlessMissing } from "./unless-missing.ts";

export interface Held extends Omit<HeldBack, "until" | "why"> {
  /** When it is expected to be held no more; null where a returned permit or a person decides that. */
  readonly until: Date | null;
}

type HeldOf = (record: JobRecord) => HeldBack | null;

const notHeld: HeldOf = () => null;

/** @returns what holds one of these jobs back; null for nothing. */
export async function readHeld(engine: Engine, records: readonly JobRecord[]): Promise<HeldOf> {
  const usesOf = ({ queue, policy }: JobRecord): readonly { key: string; weight: number }[] => [
    { key: queueGateKey(queue), weight: 1 },
    ...engine.readPolicy(policy).limits.map(([name, weight]) => ({ key: limitGateKey(name), weight })),
  ];
  const ready = records.filter(({ state }) => state === "ready");
  if (ready.length === 0) return notHeld;
  const keys = [...new Set(ready.flatMap((record) => usesOf(record).map(({ key }) => key)))];
  const { store } = engine;
  const nobody = { gates: [], cursor: null, now: 0 };
  const { gates, now } = await unlessMissing(store, () => store.readGates({ keys }), nobody);
  const byKey = new Map(gates.map((gate) => [gate.key, gate]));
  return (record) => {
    if (record.state !== "ready") return null;
    const asked = usesOf(record).flatMap(({ key, weight }) => {
      const gate = byKey.get(key);
      return gate === undefined ? [] : [{ ...gate, weight }];
    });
    return heldBack(asked, now);
  };
}

export function viewHeld(held: HeldBack | null): Held | null {
  if (held === null) return null;
  const { why: _why, until, ...rest } = held;
  return { ...rest, until: until === null ? null : new Date(until) };
}
