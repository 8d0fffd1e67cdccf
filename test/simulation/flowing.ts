/**
 * Flows, drawn per seed: how often a client submits one instead of a job, what such a flow is like (chains, fans, joins
 * of some, races, groups, maps, flows in flows, under each policy of failures), and what clients do to flows they know.
 * Every draw is from a stream of its own, so that a seed without any of it means what it meant before.
 */
import type { FlowRun } from "../../src/client/flows/flows.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { Submission } from "../../src/engine/submit/job-definition.ts";
import { flow } from "../../src/engine/flows/flow.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import type { AfterOptions } from "../../src/engine/flows/flow-options.ts";
import type { EnqueueOptions } from "../../src/engine/submit/job-options.ts";
import { isMillraceError } from "../../src/model/error.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { JobContext } from "../../src/worker/run/job-context.ts";
import type { SimInput } from "./actors/sim-jobs.ts";
import type { SimNode } from "./actors/sim-node.ts";

export interface Flowing {
  /** How many of the clients' actions are about flows; 0 for none. */
  readonly share: number;
  readonly growing: number;
}

/** MILLRACE_FLOWS=1 draws flows in every seed; one that has none without it means another run then. */
const areForced = process.env["MILLRACE_FLOWS"] === "1";

/** For three seeds of ten, and none for every seed of seeds.ts. */
export function drawFlowing(random: SeededRandom): Flowing {
  const share = random.pick([0, 0.3, 0, 0, 0, 0.6, 0, 0, 0.1, 0]);
  const growing = random.pick([0, 0.1, 0.3]);
  return { share: share === 0 && areForced ? random.pick([0.1, 0.3, 0.6]) : share, growing };
}

export const describeFlowing = ({ share }: Flowing): string => (share === 0 ? "" : `, flows ${share}`);

/** A queue of their own: nobody empties it. */
export const nodeJob = job<SimInput, string>("node", { queue: "nodes" });

const nodesMax = 8;
const policies = ["isolate", "isolate", "fail-fast", "collect"] as const;

export interface FlowHost {
  /** Numbers the keys of inputs, over all nodes. */
  keys: number;
  readonly runs: string[];
}

/** One act about flows. Never rejects: every refusal is a part of the run. */
export async function actOnFlows(host: FlowHost, node: SimNode, random: SeededRandom): Promise<void> {
  try {
    const id = host.runs.length > 0 && random.chance(0.4) ? random.pick(host.runs) : null;
    if (id !== null) return await interfere(node.mill.flows.run(id), node, random);
    const run = await node.mill.submit(drawFlow(host, random, 0));
    host.runs.push(run.id);
    if (random.chance(0.2)) await run.result({ timeout: random.whole(1, 20_000) });
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
}

async function interfere(run: FlowRun, node: SimNode, random: SeededRandom): Promise<void> {
  switch (random.whole(0, 5)) {
    case 0:
      await run.cancel({ reason: `by ${node.process.name}`, pendingOnly: random.chance(0.3) });
      return;
    case 1:
      await run.retry({ withRest: random.chance(0.3) });
      return;
    case 2: {
      const nodes = (await run.nodes()).filter(({ part }) => part === null);
      if (nodes.length > 0) await run.retry({ nodes: random.pick(nodes).name, withRest: random.chance(0.5) });
      return;
    }
    case 3: {
      const nodes = (await run.nodes()).filter(({ part }) => part === null);
      if (nodes.length > 0) await node.mill.jobs.cancel(random.pick(nodes).id, "one node");
      return;
    }
    case 4:
      await run.retry({ nodes: "all" });
      return;
    default:
      await run.counts();
  }
}

const inputOf = (host: FlowHost): SimInput => ({ key: `k${++host.keys}`, isPoison: false });

function drawFlow(host: FlowHost, random: SeededRandom, depth: number): Flow {
  const made = flow("simulated", { failureMode: random.pick(policies) });
  const names: string[] = [];
  const count =
    depth === 0 && random.chance(0.05) ? random.whole(70, 90) : random.whole(1, depth === 0 ? nodesMax : 3);
  // A fan that is too wide for one step, or a few nodes in any order.
  const isFan = count > nodesMax;
  for (let at = 0; at < count; at++) {
    const name = `n${at}`;
    const after = isFan ? drawFan(names, at, count) : drawAfter(names, random);
    addNode(host, made, { name, after, random, depth: isFan ? 2 : depth });
    names.push(name);
  }
  return made;
}

const drawFan = (names: readonly string[], at: number, count: number): AfterOptions =>
  at === 0 ? {} : at === count - 1 ? { always: names.slice(1) } : { after: "n0" };

function drawAfter(names: readonly string[], random: SeededRandom): AfterOptions {
  const lists = { after: [] as string[], afterFailureOf: [] as string[], always: [] as string[] };
  for (const name of names.slice(-4))
    if (random.chance(0.4))
      lists[random.pick(["after", "after", "after", "afterFailureOf", "always"] as const)].push(name);
  const count = Object.values(lists).flat().length;
  if (count < 2 || random.chance(0.5)) return lists;
  return { ...lists, join: random.chance(0.5) ? "any" : random.whole(1, count) };
}

interface Drawn {
  readonly name: string;
  readonly after: AfterOptions;
  readonly random: SeededRandom;
  readonly depth: number;
}

function addNode(host: FlowHost, made: Flow, { name, after, random, depth }: Drawn): void {
  const many = (): Submission<SimInput, string>[] =>
    Array.from({ length: random.whole(1, 4) }, () => nodeJob.with(inputOf(host), drawOptions(random)));
  const kind = depth > 1 ? 0 : random.next();
  if (kind < 0.65) {
    const cancelRest = random.chance(0.15);
    made.add(name, nodeJob, inputOf(host), { ...drawOptions(random), ...after, cancelRest });
  } else if (kind < 0.75) {
    const jobs = many();
    const first = random.whole(1, jobs.length);
    made.race(name, jobs, { ...after, first, cancelRest: random.chance(0.8) });
  } else if (kind < 0.83) made.group(name, many(), { ...after, tolerate: random.whole(0, 2) });
  else if (kind < 0.92) {
    const items = Array.from({ length: random.whole(0, 5) }, () => inputOf(host));
    const concurrency = random.chance(0.5) ? { concurrency: random.whole(1, 2) } : {};
    made.map(name, nodeJob, items, {
      ...{ retry: { attempts: 2 }, ...after, ...concurrency },
      tolerate: random.whole(0, 3),
    });
  } else {
    const { afterFailureOf: _, ...others } = after;
    made.sub(name, drawFlow(host, random, depth + 1), joinable(others));
  }
}

/** A join of more than there are is refused. */
function joinable({ join, ...lists }: AfterOptions): object {
  const count = Object.values(lists).flat().length;
  return join === undefined || join === "any" || (typeof join === "number" && join <= count)
    ? { ...lists, ...(join === undefined || count === 0 ? {} : { join }) }
    : lists;
}

function drawOptions(random: SeededRandom): EnqueueOptions<SimInput> {
  return {
    retry: {
      attempts: random.whole(1, 3),
      backoff: { kind: "fixed", delay: random.whole(0, 1000), jitter: "none" },
    },
    ...(random.chance(0.15) ? { delay: random.whole(0, 3000) } : {}),
    ...(random.chance(0.1) ? { priority: random.whole(-3, 3) } : {}),
    ...(random.chance(0.05) ? { deadline: random.whole(1000, 20_000) } : {}),
    ...(random.chance(0.05) ? { ttl: random.whole(100, 10_000) } : {}),
  };
}

/** What a handler adds to its own flow; nothing that was added adds more. */
export function growFlow(context: JobContext<SimInput>, random: SeededRandom, { growing }: Flowing): void {
  const { key } = context.input;
  if (context.flow === null || key.includes("+") || !random.chance(growing)) return;
  const names = Array.from({ length: random.whole(1, 3) }, (_, at) => `${key}+${context.fence.value}-${at}`);
  for (const [at, name] of names.entries())
    context.flow.add(
      name,
      nodeJob,
      { key: name, isPoison: false },
      at === 0 ? {} : { after: names[at - 1] as string },
    );
}
