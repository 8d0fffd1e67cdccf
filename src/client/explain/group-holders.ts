/**
 * Finds the job that holds a full group. Failed holders have an index of their own, so lists ask for them too. Running
 * holders, and holders that wait for a retry, are searched by explain alone, among the newest jobs of the queue. The
 * search is bounded; if it finds no holder, none is named.
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

/** Adds to each entry the failed job that holds its group, if there is one. */
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

/** Adds the job that holds the group, in whatever state it is. */
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

/** Returns holders by the gate of their group. Stops when each wanted gate has one, or after `pagesMax` pages. */
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
