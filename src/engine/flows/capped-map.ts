/**
 * A map with a cap: of its items, numbered from 0, at most `concurrency` are free at once, and as soon as one has ended the
 * next one in order is freed, whichever it was. The first ones are born free, the others blocked with a need of 1 that no
 * edge meets.
 *
 *   an item ends ──► the map's need falls from 1 to 0 ──► owed work ──► rearm: need 1 again ──► freeNext
 *
 * The need is set back before the items are looked at, so an end that the look does not see leaves owed work again.
 *
 * Nobody holds a lock and nothing is kept beside the jobs. In order of their numbers, an item may be free iff it is one of
 * the first `concurrency` that have not ended. A process that knows less of the ends than another frees a part of what the
 * other one frees, and each item is freed under the rev that was read: so the cap holds at any instant, whoever races or
 * dies. A replay brings back items that had ended. It makes a new round of the map first and a new rev of each item that
 * waits behind that, so whoever has looked before frees nobody; in a new round all items are looked at once.
 */
import { roundOf } from "../../model/attempt-log.ts";
import type { Block } from "../../model/change.ts";
import type { Part } from "../../model/flow/graph.ts";
import { readWaits } from "../../model/flow/waits.ts";
import { isTerminal } from "../../model/job-state.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Engine } from "../engine.ts";
import { changeAsRead, flowMetaOf } from "./members.ts";

/** What a process knows of one round of a map; another process may know more. */
interface Known {
  readonly round: number;
  /** Items that may be free, and had not ended when they were read. */
  readonly going: readonly number[];
  /** No item from this number on has been looked at. */
  readonly next: number;
}

const known = new WeakMap<Engine, Map<string, Known>>();
const knownMax = 1000;
const pageMax = 500;

/** How many items of a map may be free at once; null where it has no cap, and of anything else. */
export function capOf(part: Part | undefined): number | null {
  return part?.kind === "group" ? (part.concurrency ?? null) : null;
}

const held = { need: 1, slack: 0 };

/** Nothing misses it: whether too many items have failed is told by their counts. */
const armed = { need: 1, slack: 1_000_000_000 };

/** An item of a map with a cap waits for its turn, under a new rev. */
export function waitForTurn(event: "replayed" | "passed-on"): Block {
  return { to: "blocked", event, parents: [], waits: held };
}

/** The next end of an item leaves owed work again. @returns false where the map has to be looked at again. */
export async function rearm(engine: Engine, map: JobRecord): Promise<boolean> {
  if (readWaits(map.waits ?? "").need === armed.need) return true;
  const next: Block = { to: "blocked", event: "passed-on", parents: [], waits: armed };
  await changeAsRead(engine, map, [{ states: ["blocked"], next }]);
  return false;
}

/** @param map as it was read once its need was set back. */
export async function freeNext(engine: Engine, map: JobRecord): Promise<void> {
  const cap = capOf(flowMetaOf(map).part) ?? 0;
  const { id, attempts } = map;
  const round = roundOf(attempts);
  const before = knownOf(engine).get(id);
  const look = new Look(engine, map, before?.round === round ? before : await firstLook(engine, map, round));
  const going = await look.upTo(cap);
  // A replay that began meanwhile has brought back items that this look took for ended.
  const now = await engine.reads.add(id);
  if (now === null || now.state !== "blocked" || roundOf(now.attempts) !== round) return;
  remember(engine, id, { round, going: going.map(numberOf), next: look.next });
  await Promise.all(going.filter(isHeld).map((item) => changeAsRead(engine, item, [free])));
}

const freed: Block = { to: "blocked", event: "freed", parents: [], waits: { need: 0, slack: 0 } };
const free = { states: ["blocked"], next: freed } as const;

/** What a replay has parked is let go by the replay. */
const isHeld = ({ state, waits }: JobRecord): boolean =>
  state === "blocked" && readWaits(waits ?? "").need === held.need;

const numberOf = ({ id }: JobRecord): number => Number(id.slice(id.lastIndexOf(".") + 1));

/** In the first round all that is free is among the first. Behind a replay any item may be. */
async function firstLook(engine: Engine, map: JobRecord, round: number): Promise<Known> {
  const going: number[] = [];
  const all = { round, going, next: 0 };
  if (round > 1)
    for (let from = 0; from < itemsMax(map); from += pageMax)
      for (const item of await readItems(engine, map, range(from, Math.min(from + pageMax, itemsMax(map)))))
        if (item.state !== "blocked") going.push(numberOf(item));
  return all;
}

class Look {
  readonly #engine: Engine;
  readonly #map: JobRecord;
  readonly #known: Known;
  next: number;

  constructor(engine: Engine, map: JobRecord, from: Known) {
    this.#engine = engine;
    this.#map = map;
    this.#known = from;
    this.next = from.next;
  }

  /** The items that may be free: those that were, as far as they have not ended, and the next ones in order. */
  async upTo(cap: number): Promise<readonly JobRecord[]> {
    const { going } = this.#known;
    const left = await readItems(this.#engine, this.#map, going);
    const isKnown = new Set(going);
    for (const end = itemsMax(this.#map); left.length < cap && this.next < end;) {
      const upTo = Math.min(end, this.next + Math.min(pageMax, cap - left.length));
      const numbers = range(this.next, upTo).filter((number) => !isKnown.has(number));
      left.push(...(await readItems(this.#engine, this.#map, numbers)));
      this.next = upTo;
    }
    return left;
  }
}

const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, at) => from + at);

/** At most so many: the member that makes the items is one more, and so are those that handlers have added. */
const itemsMax = ({ waits }: JobRecord): number => (readWaits(waits ?? "").members?.total ?? 1) - 1;

/** Those of these items that have not ended. One whose record cannot be read has. */
async function readItems(
  engine: Engine,
  { id }: JobRecord,
  numbers: readonly number[],
): Promise<JobRecord[]> {
  const records = await Promise.all(numbers.map((number) => engine.reads.add(`${id}.${number}`)));
  return records.filter((record): record is JobRecord => record !== null && !isTerminal(record.state));
}

function knownOf(engine: Engine): Map<string, Known> {
  const maps = known.get(engine) ?? new Map<string, Known>();
  known.set(engine, maps);
  return maps;
}

function remember(engine: Engine, id: string, what: Known): void {
  const maps = knownOf(engine);
  // Behind all others: the first one is the one that was looked at the longest ago.
  maps.delete(id);
  maps.set(id, what);
  for (const oldest of maps.keys()) {
    if (maps.size <= knownMax) return;
    maps.delete(oldest);
  }
}

/** Nothing more is asked about a map that has ended. */
export function forgetMap(engine: Engine, id: string): void {
  known.get(engine)?.delete(id);
}
