/**
 * The jobs of the simulation and what their handlers do: every way a handler can end, drawn from the job's own key and
 * the number of the claim, so that it does not depend on who runs it or when. Whatever a handler does is written into
 * the effect log.
 */
import { mintedPartition } from "../../../src/model/job/job-id.ts";
import { job } from "../../../src/engine/submit/job-definition.ts";
import type { JobDefinition } from "../../../src/engine/submit/job-definition.ts";
import type { EnqueueOptions } from "../../../src/engine/submit/job-options.ts";
import { createSeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { Cancel, RetryAfter, Snooze, Unrecoverable } from "../../../src/worker/control.ts";
import { batchHandler, handler } from "../../../src/worker/handler.ts";
import type { Handler } from "../../../src/worker/handler.ts";
import type { JobContext } from "../../../src/worker/run/job-context.ts";
import type { Effect } from "../../history/history.ts";
import { growFlow, nodeJob } from "../flowing.ts";
import { drawThrottle } from "../gating.ts";
import { drawKeyThrottle, drawLane, keyOfInput } from "../lanes.ts";
import type { Plan } from "../plan.ts";
import type { SimProcess } from "./sim-process.ts";

export interface SimInput {
  readonly key: string;
  readonly isPoison: boolean;
}

export interface FollowInput {
  readonly parent: string;
  readonly fence: number;
}

export type SimJob = JobDefinition<SimInput, SimInput, string>;
export const follow = job<FollowInput, null>("follow", { queue: "q0" });
const batchName = "batch";

/** Per queue two kinds that are run one by one and, in the first, one that is run in batches. */
export function defineJobs(plan: Plan): readonly SimJob[] {
  const jobs: SimJob[] = [job(batchName, { queue: "q0" })];
  const [first] = plan.gating.limits;
  const { laning } = plan;
  const [group] = laning.groups;
  const [keyed] = laning.limits;
  const key = (input: SimInput): string => keyOfInput(laning, input);
  for (let queue = 0; queue < plan.queues; queue++)
    for (const name of ["plain", "other"])
      jobs.push(
        job(`${name}-${queue}`, {
          queue: `q${queue}`,
          // Limits that every worker knows from its definitions; most others come with an enqueue.
          ...(name === "other" && queue === 0 && first !== undefined ? { limits: [first] } : {}),
          ...(name === "other" && queue > 0 && laning.isDefined && keyed !== undefined
            ? { limits: [keyed.use({ key })] }
            : {}),
          ...(name === "plain" && laning.isDefined && group !== undefined
            ? { group: { ...group, key } }
            : {}),
        }),
      );
  return jobs;
}

/** After N claims a job is done with surprises, so that every run can end. */
export const surprisesMax = 6;
const nodeMsMax = 1000;
const fencesPerEpoch = 2 ** 32;

export interface HandlerHost {
  readonly plan: Plan;
  readonly process: SimProcess;
  readonly effects: Effect[];
  readonly nowUs: () => number;
  /** Of the store. */
  readonly partitions: number;
  /** The handler takes its process with it. */
  readonly crash: () => void;
}

type Outcome = string | Snooze | Cancel;

export function makeHandlers(jobs: readonly SimJob[], host: HandlerHost): readonly Handler[] {
  return [
    ...jobs.map((each) =>
      each.name === batchName
        ? batchHandler(each, { size: 3, wait: 50 }, (contexts) => runBatch(contexts, host))
        : handler(each, (context) => runJob(context, host)),
    ),
    ...(host.plan.flowing.share === 0 ? [] : [handler(nodeJob, (context) => runNode(context, host))]),
    handler(follow, async (context) => {
      log(host, context, { kind: "began" });
      await host.process.sleep(1);
      log(host, context, { kind: "ended", how: "returned", wasAborted: context.signal.aborted });
      return null;
    }),
  ];
}

async function runJob(context: JobContext<SimInput>, host: HandlerHost): Promise<Outcome> {
  const { plan, process } = host;
  const random = randomOf(context, plan);
  log(host, context, { kind: "began" });
  if (random.chance(0.3)) context.progress(0.5, "half way");
  if (random.chance(0.2)) context.log.info("working", { key: context.input.key });
  const output = random.fork("output");
  if (output.chance(0.2)) for (let at = output.whole(1, 5); at > 0; at--) context.stream.write(at);
  // A refused extend means that the lease is gone, which the signal tells as well.
  if (random.chance(0.05)) await context.extend(plan.leaseMs * 2).catch(() => undefined);
  const ms = drawWorkMs(random, plan.leaseMs);
  const heedsAbort = random.chance(0.7);
  await (heedsAbort ? sleepUnlessAborted(context, process, ms) : process.sleep(ms));
  if (context.input.isPoison) {
    log(host, context, { kind: "ended", how: "killed" });
    host.crash();
    return new Promise<never>(() => {});
  }
  if (heedsAbort && context.signal.aborted) {
    log(host, context, { kind: "ended", how: "threw", wasAborted: true });
    throw context.signal.reason;
  }
  return endJob(context, host, random);
}

function runNode(context: JobContext<SimInput>, host: HandlerHost): Promise<Outcome> {
  growFlow(context, randomOf(context, host.plan).fork("growth"), host.plan.flowing);
  return runBriefly(context, host);
}

/** Short, because a flow or a run is many of them. */
export function runBriefly(context: JobContext<SimInput>, host: HandlerHost): Promise<Outcome> {
  const leaseMs = Math.min(host.plan.leaseMs, nodeMsMax);
  return runJob(context, { ...host, plan: { ...host.plan, leaseMs } });
}

/** One sleep for all of a batch, then each has its own end. */
async function runBatch(
  contexts: readonly JobContext<SimInput>[],
  host: HandlerHost,
): Promise<readonly (Outcome | Error)[]> {
  for (const context of contexts) log(host, context, { kind: "began" });
  const [first] = contexts;
  if (first !== undefined)
    await host.process.sleep(drawWorkMs(randomOf(first, host.plan), host.plan.leaseMs));
  return contexts.map((context) => {
    try {
      return endJob(context, host, randomOf(context, host.plan));
    } catch (error) {
      return error as Error;
    }
  });
}

function endJob(context: JobContext<SimInput>, host: HandlerHost, random: SeededRandom): Outcome {
  const end = (how: Effect["how"], retryInMs?: number): void =>
    log(host, context, {
      kind: "ended",
      ...(how === undefined ? {} : { how }),
      ...(retryInMs === undefined ? {} : { retryInMs }),
      wasAborted: context.signal.aborted,
    });
  const draw = claimsOf(context) > surprisesMax ? 1 : random.next();
  const throttled =
    drawThrottle(host.plan.gating, random.fork("throttle")) ??
    drawKeyThrottle(host.plan.laning, random.fork("key throttle"));
  if (random.chance(0.3))
    context.whenFailed.enqueue(follow, { parent: context.id, fence: context.fence.value });
  if (draw < 0.2) {
    end("threw");
    throw new Error(`failure of ${context.input.key}`);
  }
  if (draw < 0.24) {
    end("unrecoverable");
    throw new Unrecoverable("no use");
  }
  if (draw < 0.3) {
    const retryInMs = random.whole(0, 3000);
    end("retry-after", retryInMs);
    throw new RetryAfter(retryInMs);
  }
  if (draw < 0.33) {
    end("cancelled");
    return new Cancel();
  }
  if (draw < 0.4) {
    end("snoozed");
    return new Snooze(random.whole(0, 3000));
  }
  if (throttled !== null && draw < 1) {
    end("throttled");
    throw throttled;
  }
  if (random.chance(0.5)) {
    context.kv.put(besideJob(context.id), context.fence.value);
    context.enqueue(
      follow,
      { parent: context.id, fence: context.fence.value },
      drawFollowGates(host, random),
    );
  }
  end("returned");
  return `done with ${context.input.key}`;
}

/** A name that lies in the partition of the job: a minted id says its own; of another one, what is in braces or all. */
function besideJob(id: string): string {
  if (mintedPartition(id.split(".")[0] ?? "") !== null) return `${id}.effect`;
  return id.includes("{") ? `effect:${id}` : `effect:{${id}}`;
}

/** On a store of several partitions a follow-up with limits or keys may not lie where its parent lies. */
function drawFollowGates({ plan, partitions }: HandlerHost, random: SeededRandom): EnqueueOptions {
  const { limits, share } = plan.gating;
  if (partitions > 1) return {};
  const isLimited = random.fork("follow").chance(share);
  const options = isLimited ? { limits: [random.fork("follow limit").pick(limits)] } : {};
  return drawLane(plan.laning, options, { key: null, random: random.fork("follow lane") });
}

export const claimsOf = (context: Pick<JobContext, "fence">): number => context.fence.value % fencesPerEpoch;

const randomOf = (context: JobContext<SimInput>, plan: Plan): SeededRandom =>
  createSeededRandom(`${plan.seed}/${context.input.key}/${claimsOf(context)}`);

/** Mostly short; some as long as several leases. */
function drawWorkMs(random: SeededRandom, leaseMs: number): number {
  const which = random.next();
  const length = random.next();
  if (which < 0.6) return Math.floor(length * 5);
  if (which < 0.85) return Math.floor(length * leaseMs);
  return Math.floor(length * 4 * leaseMs);
}

async function sleepUnlessAborted(context: JobContext, process: SimProcess, ms: number): Promise<void> {
  if (context.signal.aborted) return;
  await new Promise<void>((resolve) => {
    const timer = process.platform.setTimer(ms, resolve);
    context.signal.addEventListener("abort", () => {
      timer.cancel();
      resolve();
    });
  });
}

export function log(
  host: HandlerHost,
  context: Pick<JobContext, "id" | "fence" | "attempt">,
  effect: Pick<Effect, "kind" | "how" | "retryInMs" | "wasAborted">,
): void {
  host.effects.push({
    ...effect,
    id: context.id,
    fence: context.fence.value,
    attempt: context.attempt,
    actor: host.process.name,
    atUs: host.nowUs(),
  });
}
