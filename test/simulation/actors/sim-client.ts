/**
 * What application code does from a node: enqueue in every way, repeat what may not have happened, look at jobs and
 * interfere with them; sim-operator.ts and sim-gate-operator.ts have what operators do. What it saw goes into the
 * history.
 */
import type { Submission } from "../../../src/engine/submit/job-definition.ts";
import type { EnqueueOptions } from "../../../src/engine/submit/job-options.ts";
import { isMillraceError } from "../../../src/model/error.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { Enqueue, ReadBack, Seen } from "../../history/history.ts";
import { actOnFlows } from "../flowing.ts";
import type { FlowHost } from "../flowing.ts";
import { drawGates } from "../gating.ts";
import { addToCounters } from "./sim-counter.ts";
import { drawLane } from "../lanes.ts";
import { actOnRuns } from "./sim-run-client.ts";
import type { RunHost } from "./sim-run-client.ts";
import { operateGates } from "./sim-gate-operator.ts";
import type { SimInput, SimJob } from "./sim-jobs.ts";
import { operateKeys } from "./sim-key-operator.ts";
import type { SimNode } from "./sim-node.ts";
import { operate } from "./sim-operator.ts";
import { travel } from "./sim-runs.ts";
import { operateSchedules } from "./sim-schedule-operator.ts";

export interface ClientHost extends FlowHost, RunHost {
  readonly jobs: readonly SimJob[];
  /** Ids that some client has seen acknowledged. */
  readonly knownIds: string[];
  /** By id, where the caller gave it: an id that was deleted may be wanted again. */
  readonly given: Map<string, Submission<SimInput, string>>;
}

const repeatsMax = 5;

/** One action. Never rejects: every refusal is a part of the run. */
export async function actOnce(host: ClientHost, node: SimNode, random: SeededRandom): Promise<void> {
  node.actions += 1;
  await drawAction(host, node, random);
  node.actions -= 1;
}

async function drawAction(host: ClientHost, node: SimNode, random: SeededRandom): Promise<void> {
  const { plan } = host.network;
  if (host.knownIds.length > 0 && random.chance(plan.interference)) return interfere(host, node, random);
  if (random.fork("operating").chance(plan.operating))
    return operate(host.network, node, random.fork("operator"));
  if (random.fork("gate-act").chance(plan.gating.acting))
    return operateGates(host.network, node, random.fork("gate-operator"));
  if (random.fork("key-act").chance(plan.laning.acting))
    return operateKeys(host.network, node, random.fork("key-operator"));
  if (random.fork("schedule-act").chance(plan.scheduling.acting))
    return operateSchedules(plan.scheduling, node, host.jobs, random.fork("schedule-operator"));
  if (random.fork("flow-act").chance(plan.flowing.share))
    return actOnFlows(host, node, random.fork("flow-client"));
  if (random.fork("count-act").chance(plan.counting)) return addToCounters(node, random.fork("counter"));
  if (random.fork("run-act").chance(plan.running.share))
    return travels(host, node, random.fork("run-client"));
  // Now and then so many at once that workers claim more than they can run.
  const count = random.chance(0.15) ? random.whole(2, 8) : random.chance(0.03) ? random.whole(20, 50) : 1;
  const sharedKey = drawSharedKey(host, random.fork("shared key"));
  const submissions = Array.from({ length: count }, () => drawSubmission(host, random, sharedKey));
  await enqueueUntilKnown(host, node, submissions, random);
}

/** A run is started, or something is done to one that is known. */
async function travels(host: ClientHost, node: SimNode, random: SeededRandom): Promise<void> {
  if (host.travels.length > 0 && random.chance(0.6)) return actOnRuns(host, node, random);
  const known = host.knownIds.length;
  const submissions = Array.from({ length: random.pick([1, 1, 1, 2, 4]) }, () => {
    const key = `k${++host.keys}`;
    const options = drawOptions(host, random.fork(key), key, null);
    return travel.with({ key, round: 0 }, options) as unknown as Submission<SimInput, string>;
  });
  for (const { options } of submissions) if (options?.id !== undefined) host.travels.push(options.id);
  await enqueueUntilKnown(host, node, submissions, random);
  for (const id of host.knownIds.slice(known)) if (!host.travels.includes(id)) host.travels.push(id);
}

/** What is enqueued together must lie in one partition, and so does what has one key. */
function drawSharedKey({ network }: ClientHost, random: SeededRandom): string | null {
  const { keys } = network.plan.laning;
  return keys.length > 0 && network.parts.length > 1 ? random.pick(keys) : null;
}

function drawSubmission(
  host: ClientHost,
  random: SeededRandom,
  sharedKey: string | null,
): Submission<SimInput, string> {
  const { plan } = host.network;
  const key = `k${++host.keys}`;
  const isPoison = plan.isOn.poison && random.chance(plan.rate.poison);
  const submission = random
    .pick(host.jobs)
    .with({ key, isPoison }, drawOptions(host, random, key, sharedKey));
  if (submission.options?.id !== undefined) host.given.set(submission.options.id, submission);
  return submission;
}

function drawOptions(
  host: ClientHost,
  random: SeededRandom,
  key: string,
  sharedKey: string | null,
): EnqueueOptions {
  const { leaseMs, gating, laning } = host.network.plan;
  const maybe = (probability: number, options: () => EnqueueOptions): EnqueueOptions =>
    random.chance(probability) ? options() : {};
  const options: EnqueueOptions = {
    retry: {
      attempts: random.whole(1, 4),
      backoff: random.chance(0.5)
        ? { kind: "exponential", from: 100, to: 3000 }
        : { kind: "fixed", delay: random.whole(0, 2000), jitter: "none" },
    },
    ...maybe(0.25, () => ({ delay: random.whole(0, 10_000) })),
    ...maybe(0.2, () => ({ priority: random.whole(-3, 3) })),
    ...maybe(0.1, () => ({ timeout: random.whole(1, 2 * leaseMs) })),
    ...maybe(0.07, () => ({ deadline: random.whole(1, 20_000) })),
    ...maybe(0.07, () => ({ ttl: random.whole(1, 10_000) })),
    ...maybe(0.3, () => ({ id: `given-${key}` })),
    ...maybe(0.2, () => ({
      unique: {
        key: `u${random.whole(1, 4)}`,
        window: random.pick(["unfinished", "queued", 5000] as const),
        policy: random.pick(["skip", "replace", "debounce"] as const),
      },
    })),
    ...drawGates(gating, random.fork(`gates ${key}`)),
  };
  return {
    ...options,
    ...drawLane(laning, options, { key: sharedKey, random: random.fork(`lane ${key}`) }),
  };
}

/** As careful applications do: what may or may not have happened is repeated with the same ids. */
async function enqueueUntilKnown(
  host: ClientHost,
  node: SimNode,
  submissions: readonly Submission<SimInput, string>[],
  random: SeededRandom,
): Promise<void> {
  const isGiven = submissions.every(({ options }) => options?.id !== undefined);
  for (let repeat = 0; repeat < (isGiven ? repeatsMax : 1); repeat++) {
    const seen = await enqueueOnce(host, node, submissions);
    if (seen === "ok") {
      // A repeat by a caller who did not trust the answer must change nothing.
      if (isGiven && random.chance(0.1)) await enqueueOnce(host, node, submissions);
      return;
    }
    await node.process.sleep(random.whole(10, 1000));
  }
}

async function enqueueOnce(
  host: ClientHost,
  node: SimNode,
  submissions: readonly Submission<SimInput, string>[],
): Promise<Seen> {
  const { history, time } = host.network;
  const entry: Enqueue = {
    kind: "enqueue",
    actor: node.process.name,
    invokedUs: time.elapsedUs,
    answeredUs: null,
    seen: "unknown",
    order: null,
    inputs: submissions.map(({ input }) => JSON.stringify(input)),
    got: null,
  };
  history.push(entry);
  try {
    const handles = await node.mill.enqueueMany(submissions as readonly Submission[]);
    entry.seen = "ok";
    entry.got = handles.map(({ id }) => id);
    host.knownIds.push(...entry.got);
  } catch (error) {
    entry.seen = isMillraceError(error) && error.outcome === "did-not-happen" ? "failed" : "unknown";
  }
  entry.answeredUs = time.elapsedUs;
  if (entry.got !== null) await readBack(host, node, entry.got[0] as string);
  return entry.seen;
}

async function readBack(host: ClientHost, node: SimNode, id: string): Promise<void> {
  const { history, time } = host.network;
  const entry: ReadBack = {
    kind: "read-back",
    actor: node.process.name,
    invokedUs: time.elapsedUs,
    answeredUs: null,
    seen: "unknown",
    order: null,
    id,
    found: false,
  };
  history.push(entry);
  try {
    entry.found = (await node.mill.jobs.get(id)) !== null;
    entry.seen = "ok";
  } catch {
    entry.seen = "failed";
  }
  entry.answeredUs = time.elapsedUs;
}

async function interfere(host: ClientHost, node: SimNode, random: SeededRandom): Promise<void> {
  // The latest ones are likely to be running.
  const id = random.pick(random.chance(0.5) ? host.knownIds.slice(-5) : host.knownIds);
  const { jobs } = node.mill;
  try {
    switch (random.whole(0, 7)) {
      case 0:
      case 1:
        return void (await jobs.cancel(id, `asked by ${node.process.name}`));
      case 2:
        return void (await jobs.retry(id, {
          resetAttempts: random.chance(0.5),
          delay: random.whole(0, 1000),
        }));
      case 3:
        return await jobs.reschedule(id, { delay: random.whole(0, 5000) });
      case 4:
        return void (await jobs.runNow(id));
      case 5: {
        await jobs.delete(id);
        const again = host.given.get(id);
        if (again !== undefined && random.chance(0.5)) await enqueueOnce(host, node, [again]);
        return;
      }
      case 6:
        return await jobs.edit(id, { priority: random.whole(-3, 3) });
      default:
        return void (await node.mill.handle(id).result({ timeout: random.whole(1, 20_000) }));
    }
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
}
