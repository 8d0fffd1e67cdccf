/**
 * The durable job of the simulation: a random program of steps, waits, sleeps, races, lists and children, beside it
 * steps with undos, and every way a run can end. All of it is drawn from the key of its input, so that each life of a
 * round takes the same way, whoever runs it.
 */
import { z } from "zod";
import { job } from "../../../src/engine/submit/job-definition.ts";
import type { ContextOf } from "../../../src/index.ts";
import { createSeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { Cancel, RetryAfter, Snooze, Unrecoverable } from "../../../src/worker/control.ts";
import { handler } from "../../../src/worker/handler.ts";
import type { Handler } from "../../../src/worker/handler.ts";
import type { Effect, StepRun } from "../../history/history.ts";
import { drawProgram, interpret } from "../../durable/programs.ts";
import type { Life } from "../../durable/programs.ts";
import { claimsOf, follow, log, runBriefly, surprisesMax } from "./sim-jobs.ts";
import type { HandlerHost, SimInput } from "./sim-jobs.ts";

export interface TravelInput {
  readonly key: string;
  /** How often it has continued with a new journal. */
  readonly round: number;
}

// Nobody empties this queue.
const queue = "travels";
export const travel = job("travel", {
  queue,
  input: z.object({ key: z.string(), round: z.number() }),
  signals: { x: z.number(), y: z.number(), ok: z.object({ ok: z.boolean() }) },
  durable: { version: 1 },
});
/** What a run invokes. */
const errand = job<SimInput, string>("errand", {
  queue,
  retry: { attempts: 2, backoff: { kind: "fixed", delay: 500, jitter: "none" } },
});

type Travel = ContextOf<typeof travel>;

const roundsMax = 2;
const stepMsMax = 300;

export interface RunHandlerHost extends HandlerHost {
  /** The steps whose code began. */
  readonly steps: StepRun[];
}

export function makeRunHandlers(host: RunHandlerHost): readonly Handler[] {
  if (host.plan.running.share === 0) return [];
  return [
    handler(errand, (context) => runBriefly(context, host)),
    handler(travel, async (context) => runTravel(context, host) as never),
  ];
}

async function runTravel(context: Travel, host: RunHandlerHost): Promise<unknown> {
  const { plan } = host;
  const { key, round } = context.input;
  log(host, context, { kind: "began" });
  const random = createSeededRandom(`${plan.seed}/${key}/${round}`);
  const life = lifeOf(context, host);
  const hasUndos = random.chance(plan.running.undoing);
  const learnt = await Promise.all([
    interpret(drawProgram(random.fork("program")), withErrands(context, key) as never, life, false),
    ...(hasUndos ? [book(context, host, life, random.fork("bookings"))] : []),
  ]);
  if (random.chance(0.3)) await context.step.enqueue(follow, { parent: context.id, fence: round });
  if (random.chance(0.2)) context.progress(0.9, "nearly");
  const [results] = learnt;
  return endTravel(context, host, random.fork("end"), results?.length ?? 0);
}

function endTravel(context: Travel, host: RunHandlerHost, random: SeededRandom, learnt: number): unknown {
  const { key, round } = context.input;
  const end = (how: NonNullable<Effect["how"]>, retryInMs?: number): void =>
    log(host, context, {
      ...{ kind: "ended", how, wasAborted: context.signal.aborted },
      ...(retryInMs === undefined ? {} : { retryInMs }),
    });
  const draw = random.next();
  const isSurprising = claimsOf(context) <= surprisesMax;
  if (draw < 0.1) {
    end("unrecoverable");
    throw new Unrecoverable("no use");
  }
  if (draw < 0.2 || (draw < 0.3 && isSurprising)) {
    end("threw");
    throw new Error(`failure of ${key}`);
  }
  if (draw < 0.36 && isSurprising) {
    const retryInMs = random.whole(0, 3000);
    end("retry-after", retryInMs);
    throw new RetryAfter(retryInMs);
  }
  if (draw < 0.4) {
    end("cancelled");
    return new Cancel();
  }
  if (draw < 0.45 && isSurprising) {
    end("snoozed");
    return new Snooze(random.whole(0, 3000));
  }
  end("returned");
  if (draw < 0.6 && round < roundsMax)
    return context.step.continueWith({ key, round: round + 1 }, { dropUndos: true });
  return `done with ${key}: ${learnt}`;
}

/** One to three steps with undos, and time between them in which somebody may end the run. */
async function book(
  { step }: Travel,
  host: RunHandlerHost,
  life: Life,
  random: SeededRandom,
): Promise<string[]> {
  const count = random.whole(1, 3);
  for (let number = 0; number < count; number++) {
    const undoFails = random.pick([0, 0, 0.4]);
    const undo = async (booked: string): Promise<void> => {
      await host.process.sleep(host.process.platform.random() * stepMsMax);
      if (host.process.platform.random() < undoFails) throw new Error(`cannot undo ${booked}`);
    };
    await step.run(`book ${number}`, ({ idempotencyKey }) => life.work(idempotencyKey, 0), { undo });
    if (random.chance(0.5)) await step.sleep(`nap ${number}`, random.whole(0, 3000));
  }
  return [];
}

/** What a life of the run does outside of its journal: it may differ from life to life. */
function lifeOf(context: Travel, { process, plan, steps, nowUs }: RunHandlerHost): Life {
  const random = (): number => process.platform.random();
  return {
    observe: () => undefined,
    io: () => process.sleep(random() * stepMsMax),
    work: async (key, fails) => {
      const { round, call } = readKey(key.slice(context.id.length + 1));
      steps.push({ id: context.id, fence: context.fence.value, round, call, atUs: nowUs() });
      const isLong = random() < 0.05;
      await process.sleep(Math.floor(random() * (isLong ? 2 * plan.leaseMs : stepMsMax)));
      if (random() < fails) throw new Error(`failure in ${call}`);
      return `${call} at ${nowUs()}`;
    },
  };
}

/** @param key the idempotency key of a step without the id of its run */
function readKey(key: string): { readonly round: number; readonly call: string } {
  const at = key.indexOf(":");
  return { round: Number(key.slice(0, at)), call: key.slice(at + 1) };
}

/** The programs name the jobs that they invoke; here all of these are errands. */
function withErrands({ step }: Travel, key: string): object {
  return new Proxy(step, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (name === "invoke")
        return ({ name: what }: { readonly name: string }) =>
          target.invoke(errand, { key: `${key}/${what}`, isPoison: false });
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
