/**
 * What operators do about groups that failed jobs hold: each is replayed once, and deleted where it has failed again,
 * so that the group goes on.
 */
import { terminalStates } from "../../../src/model/job/job-state.ts";
import { unlessRefused } from "./sim-gate-operator.ts";
import type { SimNode } from "./sim-node.ts";

const replayed = new WeakMap<SimNode, Set<string>>();

export async function releaseGroups(node: SimNode): Promise<void> {
  const known = replayed.get(node) ?? new Set();
  replayed.set(node, known);
  await unlessRefused(async () => {
    const { jobs } = await node.mill.jobs.list({ holdsGroup: true, state: terminalStates });
    for (const { id } of jobs) {
      await (known.has(id) ? node.mill.jobs.delete(id) : node.mill.jobs.retry(id));
      known.add(id);
    }
  });
}
