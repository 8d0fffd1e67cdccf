/**
 * Which job holds a group that is full. A failed one is found by its own index, so lists ask for those; a running one
 * and one that waits for its retry are looked for by explain alone, among the newest of the queue. Nobody waits for the
 * answer of a long search: who is not found among so many is not named.
 */
import { groupGateKey, keyedGate, readKeyUse } from "../../model/routing/lane.ts";
import { withHolder } from "../../model/limits/held.ts";
import type { HeldBack } from "../../model/limits/held.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import type { FindAnswer, FindRequest, JobFilter } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { unlessMissing } from "../jobs/unless-missing.ts";

const pageMax = 100;
const pagesMax = 10;
const scanMax = 1000;
const none: FindAnswer = { jobs: [], cursor: null, scanned: 0 };

/** The same with the failed jobs that hold the groups by which some of them are held. */
export async function withFailedHolders(
  store: Store,
  held: readonly (HeldBack | null)[],
): Promise<readonly (HeldBack | null)[]> {
  const wanted = new Set(held.flatMap((each) => gateOf(each) ?? []));
  if (wanted.size === 0) return held;
  const found = await findHolders(store, { states: terminalStates, keepsLane: true }, wanted);
  return held.map((each) => {
    const holder = found.get(gateOf(each) ?? "");
    return each === null || holder === undefined ? each : withHolder(each, holder);
  });
}

/** The same with whoever holds the group. */
export async function withAnyHolder(store: Store, held: HeldBack): Promise<HeldBack> {
  const gate = gateOf(held);
  if (gate === null || held.holder !== undefined) return held;
  const filters: readonly JobFilter[] = [
    { queue: held.name, states: ["running"] },
    { queue: held.name, states: ["scheduled"], keepsLane: true },
  ];
  for (const filter of filters) {
    const holder = (await findHolders(store, filter, new Set([gate]))).get(gate);
    if (holder !== undefined) return withHolder(held, holder);
  }
  return held;
}

function gateOf(held: HeldBack | null): string | null {
  if (held === null || held.by !== "group" || held.key === undefined) return null;
  return keyedGate(groupGateKey(held.name), held.key);
}

/** By the gates of their groups, until each of the wanted ones has its holder. */
async function findHolders(
  store: Store,
  filter: JobFilter,
  wanted: ReadonlySet<string>,
): Promise<ReadonlyMap<string, JobRecord>> {
  const found = new Map<string, JobRecord>();
  let cursor: string | null = null;
  for (let page = 0; page < pagesMax && found.size < wanted.size; page++) {
    const request: FindRequest = { filter, max: pageMax, scanMax, cursor };
    const answer: FindAnswer = await unlessMissing(store, () => store.findJobs(request), none);
    for (const job of answer.jobs)
      for (const { key } of (job.laneGates ?? []).map(readKeyUse)) if (wanted.has(key)) found.set(key, job);
    cursor = answer.cursor;
    if (cursor === null) break;
  }
  return found;
}
