/**
 * A map with a cap: the next of its items are freed as others end. Which of them may be free says the model
 * (model/flow/capped-map.ts); here the items are looked at and freed.
 *
 *   an item ends ──► the map's need falls from 1 to 0 ──► deferred work ──► rearm: need 1 again ──► freeNext
 *
 * The need is set back before the items are looked at, so an end that the look does not see leaves deferred work again.
 *
 * Nobody holds a lock and nothing is kept beside the jobs: a process with an old look frees a part of what another one
 * frees, and each item is freed under the rev that was read. A replay brings back items that had ended. It makes a new
 * round of the map first and a new rev of each item that waits behind that, so whoever has looked before frees nobody;
 * in a new round all items are looked at once.
 */
import { roundOf } from "../../model/job/attempt-log.ts";
import { numberOfItem } from "../../model/flow/flow-meta.ts";
import {
  afterLook,
  allLooks,
  capOf,
  freeItem,
  isArmed,
  isHeld,
  itemsMax,
  nextLook,
  rearmMap,
} from "../../model/flow/capped-map.ts";
import type { KnownItems } from "../../model/flow/capped-map.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import type { Services } from "../services.ts";
import { changeAsRead, flowMetaOf } from "./members.ts";

/** What this process knows of one round of a map. */
interface Known extends KnownItems {
  readonly round: number;
}

/** Of each process in this program: its reads are its own. */
const known = new WeakMap<Services["reads"], Map<string, Known>>();
const knownMax = 1000;

/** The next end of an item leaves deferred work again. @returns false where the map has to be looked at again. */
export async function rearm(needs: Needs<"changes">, map: JobRecord): Promise<boolean> {
  if (isArmed(readWaits(map.waits ?? ""))) return true;
  await changeAsRead(needs, map, [{ states: ["blocked"], next: rearmMap }]);
  return false;
}

/** @param map as it was read once its need was set back. */
export async function freeNext(needs: Needs<"changes" | "reads">, map: JobRecord): Promise<void> {
  const { id, attempts } = map;
  const cap = capOf(flowMetaOf(map).part) ?? 0;
  const items = itemsMax(readWaits(map.waits ?? ""));
  const round = roundOf(attempts);
  const before = knownOf(needs).get(id);
  const from = before?.round === round ? before : await firstLook(needs, id, items, round);
  const left = await readItems(needs, id, from.going);
  let knows: KnownItems = { going: left.map(numberOf), next: from.next };
  for (let look = nextLook(knows, cap, items); look !== null; look = nextLook(knows, cap, items)) {
    const more = await readItems(needs, id, look.items);
    left.push(...more);
    knows = afterLook(knows, look, more.map(numberOf));
  }
  // A replay that began meanwhile has brought back items that this look took for ended.
  const now = await needs.reads.add(id);
  if (now === null || now.state !== "blocked" || roundOf(now.attempts) !== round) return;
  remember(needs, id, { round, ...knows });
  const free = { states: ["blocked"], next: freeItem } as const;
  await Promise.all(left.filter(isHeld).map((item) => changeAsRead(needs, item, [free])));
}

const numberOf = ({ id }: JobRecord): number => numberOfItem(id);

/** In the first round all that is free is among the first. Behind a replay any item may be. */
async function firstLook(
  needs: Needs<"reads">,
  id: string,
  items: number,
  round: number,
): Promise<KnownItems> {
  const going: number[] = [];
  for (const look of round > 1 ? allLooks(items) : [])
    for (const item of await readItems(needs, id, look.items))
      if (item.state !== "blocked") going.push(numberOf(item));
  return { going, next: 0 };
}

/** Those of these items that have not ended. One whose record cannot be read has. */
async function readItems(
  needs: Needs<"reads">,
  id: string,
  numbers: readonly number[],
): Promise<JobRecord[]> {
  const records = await Promise.all(numbers.map((number) => needs.reads.add(`${id}.${number}`)));
  return records.filter((record): record is JobRecord => record !== null && !isTerminal(record.state));
}

function knownOf({ reads }: Needs<"reads">): Map<string, Known> {
  const maps = known.get(reads) ?? new Map<string, Known>();
  known.set(reads, maps);
  return maps;
}

function remember(needs: Needs<"reads">, id: string, what: Known): void {
  const maps = knownOf(needs);
  // Behind all others: the first one is the one that was looked at the longest ago.
  maps.delete(id);
  maps.set(id, what);
  for (const oldest of maps.keys()) {
    if (maps.size <= knownMax) return;
    maps.delete(oldest);
  }
}

/** Nothing more is asked about a map that has ended. */
export function uncacheMap({ reads }: Needs<"reads">, id: string): void {
  known.get(reads)?.delete(id);
}
