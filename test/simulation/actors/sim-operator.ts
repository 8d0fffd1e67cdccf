/**
 * What operators do from a node: take jobs from their workers, empty queues and clear their history. What they saw goes
 * into the history.
 */
import { isMillraceError } from "../../../src/model/error.ts";
import { terminalStates, waitingStates } from "../../../src/model/job/job-state.ts";
import { deleteChange } from "../../../src/model/job/operate.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { Purge } from "../../history/history.ts";
import type { Network } from "../faulty-store.ts";
import type { SimNode } from "./sim-node.ts";

/** One act. Never rejects: every refusal is a part of the run. */
export async function operate(network: Network, node: SimNode, random: SeededRandom): Promise<void> {
  try {
    await (random.chance(0.7) ? revokeOne(node, random) : purgeQueue(network, node, random));
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
}

/** By the time of the revoke the job may have ended, or run somewhere else. */
async function revokeOne(node: SimNode, random: SeededRandom): Promise<void> {
  const { jobs } = await node.mill.jobs.list({ state: "running", limit: 20 });
  if (jobs.length > 0) await node.mill.jobs.revoke(random.pick(jobs).id);
}

const purged = [terminalStates, waitingStates, deleteChange.states];

async function purgeQueue(network: Network, node: SimNode, random: SeededRandom): Promise<void> {
  const { history, time, plan } = network;
  const queue = `q${random.whole(0, plan.queues - 1)}`;
  const states = random.pick(purged);
  const entry: Purge = {
    kind: "purge",
    actor: node.process.name,
    invokedUs: time.elapsedUs,
    answeredUs: null,
    seen: "unknown",
    order: null,
    queue,
    states,
    deleted: 0,
  };
  history.push(entry);
  entry.deleted = (await node.mill.jobs.delete({ queue, state: states })).deleted;
  entry.seen = "ok";
  entry.answeredUs = time.elapsedUs;
}
