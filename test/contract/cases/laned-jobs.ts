/** Jobs of groups that run up to N at once, and claims of them. */
import { expect } from "vitest";
import { groupGateKey, groupLane, keyedGate, writeKeyUse } from "../../../src/model/routing/lane.ts";
import type { ClaimAnswer } from "../../../src/store/operations.ts";
import type { LeasedJob, NewJob } from "../../../src/store/records.ts";
import type { Store } from "../../../src/store/store.ts";
import { aClaim, aJob, aRoute } from "../../support/builders.ts";

export const groupGate = (key: string): string => keyedGate(groupGateKey("mail"), key);
export const laneOf = (key: string): string => groupLane("mail", key, "rank");
export const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

/** A job of a group of which up to N run at once. */
export const grouped = (id: string, key: string, cap = 1, given: Partial<NewJob> = {}): NewJob =>
  aJob({
    id,
    laneKey: laneOf(key),
    laneGates: [writeKeyUse({ key: groupGate(key), weight: 1, cap })],
    ...given,
  });
export const byRank = aRoute({ laneKey: "any" });
export const claimFrom = (store: Store, routes: readonly number[], max = 10): Promise<ClaimAnswer> =>
  store.claim(aClaim({ offers: [{ routes, max }] }));
export const idsFrom = async (store: Store, routes: readonly number[], max = 10): Promise<string[]> =>
  ids((await claimFrom(store, routes, max)).jobs);
export const claimOne = async (store: Store, routes: readonly number[]): Promise<LeasedJob> => {
  const { jobs } = await claimFrom(store, routes, 1);
  expect(jobs).toHaveLength(1);
  return jobs[0]!;
};
