/**
 * Why a ready job is held back now: the first of its gates that would not let it pass. A closed gate comes before a
 * full one, because only time or an operator opens it.
 */
import { durationText } from "../duration.ts";
import { foreverMs, gateName, isBudgetGate, isQueueGate, opensAt, permitsLeft } from "./gate.ts";
import type { GateState } from "./gate.ts";
import { isTerminal } from "../job/job-state.ts";
import type { JobState } from "../job/job-state.ts";
import { gateOfLimit, isGroupGate, isKeyedGate, keyOfGate } from "../routing/lane.ts";

/**
 * `pause`: its queue is paused. `limit`: a limit that it uses, or the key of it that it takes from. `budget`: a budget,
 * or its key of one, is spent. `queue`: the rate or the concurrency of its queue. `group`: the maximum of its group
 * runs or holds its place.
 */
export type HeldBy = "pause" | "limit" | "budget" | "queue" | "group";

/** What holds a job back: times as instants of the store's clock. */
export interface HeldBack {
  readonly by: HeldBy;
  /** The name of the limit or the budget, else that of the queue. */
  readonly name: string;
  /** The key of the limit, the budget or the group; absent if the whole limit or the queue holds the job. */
  readonly key?: string;
  /** Permits held now, and their maximum; null if their number is not limited. */
  readonly use: { readonly held: number; readonly cap: number } | null;
  /** When the gate's own clock lets the job pass; null if a returned permit or an operator does. */
  readonly until: number | null;
  /** A job that holds the group, if one was found. */
  readonly holder?: Holder;
  readonly why: string;
}

export interface Holder {
  readonly id: string;
  readonly state: JobState;
}

export interface GateAsked extends GateState {
  readonly key: string;
  /** How much of the gate the job takes. */
  readonly weight: number;
  /** For a queue's gate: the budget that has closed it; absent for none. */
  readonly spent?: string;
}

/** The same with a job that holds the group. */
export function withHolder(held: HeldBack, { id, state }: Holder): HeldBack {
  const others = (held.use?.held ?? 1) > 1 ? " and others" : "";
  const does = isTerminal(state)
    ? "which has failed: the group goes on once that is replayed or deleted"
    : state === "running"
      ? "which is running"
      : "which waits to be tried again";
  const why = `${held.why} It is held by the job ${JSON.stringify(id)}${others}, ${does}.`;
  return { ...held, holder: { id, state }, why };
}

export function heldBack(gates: readonly GateAsked[], now: number): HeldBack | null {
  const refusing = gates.filter((gate) => permitsLeft(gate, now) < gate.weight);
  const closed = refusing.find(({ closedUntil }) => closedUntil !== null && closedUntil > now);
  const gate = closed ?? refusing[0];
  return gate === undefined ? null : describe(gate, now);
}

/** Whose gate it is. */
function scopeOf(key: string): Pick<HeldBack, "by" | "name" | "key"> & { readonly titled: string } {
  if (!isKeyedGate(key)) {
    const name = gateName(key);
    const by = byOf(key);
    return { by, name, titled: `The ${by} ${JSON.stringify(name)}` };
  }
  const of = keyOfGate(key);
  const name = gateName(gateOfLimit(key));
  const [shownKey, shown] = [JSON.stringify(of), JSON.stringify(name)];
  return isGroupGate(key)
    ? { by: "group", name, key: of, titled: `The group ${shownKey} of the queue ${shown}` }
    : { by: byOf(key), name, key: of, titled: `The ${byOf(key)} ${shown} for the key ${shownKey}` };
}

function byOf(key: string): "queue" | "budget" | "limit" {
  return isQueueGate(key) ? "queue" : isBudgetGate(key) ? "budget" : "limit";
}

function describe(gate: GateAsked, now: number): HeldBack {
  const { key, cap, held, rate, weight, closedUntil } = gate;
  const isQueue = isQueueGate(key);
  const use = cap === null ? null : { held, cap };
  const { titled, ...scope } = scopeOf(key);
  const found = (why: string, until: number | null, by: HeldBy = scope.by): HeldBack => ({
    ...scope,
    by,
    use,
    until,
    why: `${titled} ${why}`,
  });
  if (closedUntil !== null && closedUntil > now) {
    const inText = durationText(closedUntil - now);
    if (gate.spent !== undefined)
      return {
        ...found(
          `is held by the budget ${JSON.stringify(gate.spent)}, which is spent, for ${inText}.`,
          closedUntil,
        ),
        ...{ by: "budget", name: gate.spent },
      };
    if (isBudgetGate(key))
      return found(`is spent: it opens in ${inText}, when its period ends.`, closedUntil);
    if (!isQueue) return found(`cools down after a throttle, for ${inText}.`, opensAt(gate, weight, now));
    return closedUntil === foreverMs
      ? found("is paused until somebody resumes it.", null, "pause")
      : found(`is paused for ${inText}.`, closedUntil, "pause");
  }
  if (cap !== null && weight > cap)
    return found(
      `lets ${cap} run at once and the job weighs ${weight}: it waits until that is raised.`,
      null,
    );
  if (rate !== null && weight * rate.stepUs > rate.burstUs)
    return found(
      `has a burst smaller than the job's weight of ${weight}: it waits until that is raised.`,
      null,
    );
  if (cap !== null && held + weight > cap) return found(`is full: ${held} of ${cap} are held.`, null);
  const at = opensAt(gate, weight, now);
  return found(`has no token left by its rate for ${durationText(Math.max(0, (at ?? now) - now))}.`, at);
}
