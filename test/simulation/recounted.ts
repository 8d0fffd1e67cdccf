/**
 * A store in memory whose flows are recounted behind every call that writes about them: invariant 43 at each commit,
 * and not only once all work is done. The flow and all its members are read by one call, so nothing comes between.
 * Nobody waits for the look, so a run means the same with it.
 */
import { rootOf } from "../../src/model/flow/flow-meta.ts";
import type { JobRecord } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { countsAreTrue } from "../history/checks/check-flows.ts";

export interface Recounted {
  readonly store: Store;
  /** The first sentence about each flow that was counted wrong. */
  readonly miscounts: () => Promise<readonly string[]>;
  /** How many times a flow was recounted. */
  readonly looks: () => number;
}

export function recounted(store: Store): Recounted {
  /** By the id of each flow: those of its members, as they were submitted. */
  const members = new Map<string, Set<string>>();
  const found = new Map<string, string>();
  const pending = new Set<Promise<void>>();
  let looks = 0;

  const learn = (jobs: readonly { readonly id: string; readonly waits?: string | null }[] = []): void => {
    for (const { id, waits = null } of jobs) {
      if (waits === null) continue;
      const root = rootOf(id) ?? id;
      members.set(root, (members.get(root) ?? new Set()).add(id));
    }
  };
  const recount = async (root: string): Promise<void> => {
    looks += 1;
    const records = await store.readJobs([
      root,
      ...[...(members.get(root) ?? [])].filter((id) => id !== root),
    ]);
    // Members go behind their flow, one page after the other.
    if (records[0] === null) return;
    const there = records.filter((record): record is JobRecord => record !== null);
    for (const { message } of countsAreTrue(there)) if (!found.has(root)) found.set(root, message);
  };
  const lookAt = (ids: readonly string[]): void => {
    const roots = new Set(ids.map((id) => rootOf(id) ?? id).filter((root) => members.has(root)));
    for (const root of roots) {
      const look = recount(root).catch(() => undefined);
      pending.add(look);
      void look.then(() => pending.delete(look));
    }
  };

  return {
    looks: () => looks,
    miscounts: async () => {
      await Promise.all(pending);
      return [...found.values()];
    },
    store: {
      ...store,
      submit: async (units) => {
        for (const { jobs } of units) learn(jobs);
        const answer = await store.submit(units);
        lookAt(units.flatMap(({ jobs }) => jobs.map(({ id }) => id)));
        return answer;
      },
      settleIfLeased: async (settles) => {
        for (const { effects } of settles) learn(effects?.jobs);
        const answer = await store.settleIfLeased(settles);
        lookAt(settles.map(({ id }) => id));
        return answer;
      },
      changeIf: async (changes) => {
        const answer = await store.changeIf(changes);
        lookAt(changes.map(({ id }) => id));
        return answer;
      },
    },
  };
}
