/**
 * Which items of a capped map may be free. Items are numbered from 0. At most `concurrency` are free at once, and as
 * soon as any of them ends, the next one in order is freed. The first items are born free, the others blocked with a
 * need of 1 that no edge meets.
 *
 * An item may be free iff it is one of the first `concurrency`, in order of their numbers, that have not ended; after a
 * replay the items that were left free come first. A process that knows fewer ends frees a subset of what others free,
 * so the cap holds at any instant without a lock. The engine looks and frees (engine/flows/run-capped-map.ts).
 */
import type { Block } from "../job/change.ts";
import type { JobState } from "../job/job-state.ts";
import type { Part } from "./graph.ts";
import { readWaits } from "./flow-waits.ts";
import type { Waits } from "./flow-waits.ts";

/** How many items of a map may be free at once; null without a cap, and for other parts. */
export function capOf(part: Part | undefined): number | null {
  return part?.kind === "group" ? (part.concurrency ?? null) : null;
}

/**
 * The maximum number of items: the members also include the one that makes the items, and those that handlers have
 * added.
 */
export function itemsMax({ members }: Waits): number {
  return (members?.total ?? 1) - 1;
}

/** How new items begin, and how much more their map needs with them. */
export interface FirstItems {
  readonly isHeld: (item: number) => boolean;
  readonly need: number;
}

/**
 * Up to the cap, new items are born free, and the map needs the next end of an item. After a replay other items may be
 * free already, so all are born held; the end of the member that adds them leaves deferred work anyway.
 */
export function firstItems(cap: number, count: number, isAgain: boolean): FirstItems {
  if (isAgain) return { isHeld: () => true, need: 0 };
  return { isHeld: (item) => item >= cap, need: count > cap ? 1 : count };
}

const held = { need: 1, slack: 0 };
/** No edge misses it: the counts show whether too many items have failed. */
const armed = { need: 1, slack: 1_000_000_000 };

/** Whether an item waits for the cap. An item that a replay holds does not: the replay releases it. */
export function isHeld({
  state,
  waits,
}: {
  readonly state: JobState;
  readonly waits: string | null;
}): boolean {
  return state === "blocked" && readWaits(waits ?? "").need === held.need;
}

/** Lets an item wait for the cap, under a new rev. */
export function waitBehindCap(event: "replayed" | "passed-on"): Block {
  return { to: "blocked", event, parents: [], waits: held };
}

/** Frees an item from the cap. */
export const freeItem: Block = { to: "blocked", event: "freed", parents: [], waits: { need: 0, slack: 0 } };

/** Whether the next end of an item leaves deferred work for its map. */
export function isArmed({ need }: Waits): boolean {
  return need === armed.need;
}

/** Lets the next end of an item leave deferred work for its map again. */
export const rearmMap: Block = { to: "blocked", event: "passed-on", parents: [], waits: armed };

/** What this process knows of the items of a map; another process may know more. */
export interface KnownItems {
  /** Items that may be free, and had not ended when they were looked at. */
  readonly going: readonly number[];
  /** No item from this number on has been looked at. */
  readonly next: number;
}

/** Items to look at, and where the next look begins. */
export interface ItemsLook {
  readonly items: readonly number[];
  readonly next: number;
}

const lookMax = 500;

/** What to look at before it is known which items may be free; null once it is known: exactly those in `going`. */
export function nextLook({ going, next }: KnownItems, cap: number, items: number): ItemsLook | null {
  const missing = cap - going.length;
  if (missing <= 0 || next >= items) return null;
  const end = Math.min(items, next + Math.min(lookMax, missing));
  const known = new Set(going);
  return { items: range(next, end).filter((item) => !known.has(item)), next: end };
}

/** Adds those items of a look that have not ended. */
export function afterLook({ going }: KnownItems, { next }: ItemsLook, left: readonly number[]): KnownItems {
  return { going: [...going, ...left], next };
}

/** All items, look by look: in a new round any of them may be free. */
export function allLooks(items: number): readonly ItemsLook[] {
  return range(0, Math.ceil(items / lookMax)).map((at) => {
    const next = Math.min(items, (at + 1) * lookMax);
    return { items: range(at * lookMax, next), next };
  });
}

const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, at) => from + at);
