/**
 * Flows whose every commit may be the last of its process: what each is, and what must have become of it, whoever died
 * where.
 */
import { flow } from "../../src/engine/flows/flow.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { pathOfId } from "../../src/model/flow/flow-meta.ts";
import type { JobState } from "../../src/model/job/job-state.ts";
import type { JobRecord } from "../../src/store/records.ts";
import { Cancel, Unrecoverable } from "../../src/worker/control.ts";
import { handler } from "../../src/worker/handler.ts";
import type { Handler } from "../../src/worker/handler.ts";
import type { JobContext } from "../../src/worker/run/job-context.ts";
import type { FlowScenario } from "./crash-world.ts";
import type { SimProcess } from "./actors/sim-process.ts";

interface StepInput {
  readonly ms?: number;
  /** It fails in its first round only. */
  readonly fails?: boolean;
  /** How many nodes it adds to its flow. */
  readonly adds?: number;
}

/** A worker that dies takes an attempt with it, and no more than one worker does. */
const step = job<StepInput, number[]>("step", { queue: "steps", retry: { attempts: 3 } });

function handlersOf(process: SimProcess): readonly Handler[] {
  return [handler(step, (context: JobContext<StepInput>) => runStep(context, process))];
}

async function runStep(context: JobContext<StepInput>, process: SimProcess): Promise<number[] | Cancel> {
  const { ms = 1, fails = false, adds = 0 } = context.input;
  for (let waited = 0; waited < ms && !context.signal.aborted; waited += 10)
    await process.sleep(Math.min(10, ms));
  if (context.signal.aborted) return new Cancel("told to");
  if (fails && context.idempotencyKey.endsWith(":1")) throw new Unrecoverable("as asked");
  for (let at = 0; at < adds; at++) {
    context.flow?.add(`added ${at}`, step, {});
    if (at > 0) context.flow?.add(`behind ${at}`, step, {}, { after: [`added ${at}`, "last"], join: "any" });
  }
  return [1, 2, 3];
}

export interface EmittedEvent extends FlowScenario {
  /** How the flow may end; more than one where the crash may come before an operator is heard. */
  readonly ends: readonly JobState[];
  /** States that nodes must have, by their paths, where the flow has ended in the first of `ends`. */
  readonly nodes?: Readonly<Record<string, JobState>>;
  /** So many completed. */
  readonly completed?: number;
}

function built(
  name: string,
  build: (given: Flow) => void,
  failureMode?: "fail-fast" | "collect",
): () => Flow {
  return () => {
    const made = flow(name, failureMode === undefined ? {} : { failureMode });
    build(made);
    return made;
  };
}

const slow = 2000;
const handlers = handlersOf;
const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

export const scenarios: readonly EmittedEvent[] = [
  {
    name: "a cascade of skips, three deep",
    flow: built("skips", (f) => {
      f.add("a", step, { fails: true });
      f.add("b", step, {}, { after: "a" });
      f.add("c", step, {}, { after: "b" });
      f.add("d", step, {}, { after: "c" });
      f.add("clean", step, {}, { afterFailureOf: "a" });
      f.add("last", step, {}, { always: ["d", "clean"] });
    }),
    handlers,
    ends: ["failed"],
    nodes: { a: "failed", b: "skipped", c: "skipped", d: "skipped", clean: "completed", last: "completed" },
  },
  {
    name: "a fan of 80, which is deferred in part",
    flow: built("fan", (f) => {
      f.add("first", step, {});
      const names = range(80).map((at) => `n${at}`);
      for (const name of names) f.add(name, step, {}, { after: "first" });
      f.add("last", step, {}, { after: names });
    }),
    handlers,
    ends: ["completed"],
    completed: 82,
  },
  {
    name: "a race whose rest is cancelled",
    flow: built("race", (f) => {
      const quotes = f.race("quotes", [step.with({}), ...range(5).map(() => step.with({ ms: slow }))]);
      f.add("use", step, {}, { after: quotes });
    }),
    handlers,
    ends: ["completed"],
    nodes: { quotes: "completed", use: "completed" },
  },
  {
    name: "a join of any that cancels its other parents",
    flow: built("join", (f) => {
      f.add("fast", step, {});
      f.add("slow", step, { ms: slow });
      f.add("slower", step, { ms: slow });
      f.add("use", step, {}, { after: ["fast", "slow", "slower"], join: "any", cancelRest: true });
    }),
    handlers,
    ends: ["completed"],
    nodes: { use: "completed" },
  },
  {
    name: "a flow that fails fast",
    flow: built(
      "fail-fast",
      (f) => {
        f.add("a", step, { fails: true });
        f.add("slow", step, { ms: slow });
        f.add("b", step, {}, { after: "slow" });
        f.add("c", step, {}, { after: "b" });
        f.group("g", [step.with({ ms: slow }), step.with({ ms: slow })], { always: "a" });
      },
      "fail-fast",
    ),
    handlers,
    ends: ["failed"],
    nodes: { a: "failed" },
  },
  {
    name: "the cancel of a flow with a part in it",
    flow: built("cancel", (f) => {
      f.add("a", step, {});
      f.add("slow", step, { ms: slow }, { after: "a" });
      f.group("g", [step.with({ ms: slow }), step.with({ ms: slow })], { after: "a" });
      f.add("last", step, {}, { after: ["slow", "g"] });
    }),
    handlers,
    acts: async (_, run, process) => {
      await process.sleep(1000);
      await run.cancel({ reason: "enough" });
    },
    ends: ["cancelled", "completed"],
    nodes: { a: "completed", last: "cancelled" },
  },
  {
    name: "a replay of what failed, with what it skipped",
    flow: built("replay", (f) => {
      f.add("a", step, { fails: true });
      f.add("b", step, {}, { after: "a" });
      f.group("g", [step.with({ fails: true }), step.with({})], {});
      f.group("h", [step.with({}), step.with({})], { after: "g" });
      f.add("last", step, {}, { after: ["b", "h"] });
    }),
    handlers,
    acts: async (_, run, process) => {
      await run.result({ timeout: "10m" }).catch(() => undefined);
      await process.sleep(1);
      await run.retry();
      await run.result({ timeout: "10m" });
    },
    ends: ["completed", "failed"],
    completed: 7,
  },
  {
    name: "a map that is made of a result",
    flow: built("map", (f) => {
      const list = f.add("list", step, {});
      const mapped = f.map("m", step, list.result as never, { concurrency: 2 });
      f.add("last", step, {}, { after: mapped });
    }),
    handlers,
    ends: ["completed"],
    completed: 6,
  },
  {
    name: "a map with a cap, whose first item is slow, one item fails, and both run again",
    flow: built("capped", (f) => {
      const items = [{ ms: 100 }, {}, { fails: true }, {}, {}];
      f.map("m", step, items, { concurrency: 2, tolerate: 1 });
    }),
    handlers,
    acts: async (_, run) => {
      await run.result({ timeout: "10m" });
      await run.retry({ nodes: ["m.0", "m.2", "m.3", "m.4"] });
      await run.result({ timeout: "10m" });
    },
    ends: ["completed"],
    nodes: { "m.0": "completed", "m.1": "completed", "m.4": "completed" },
  },
  {
    name: "a replay of everything, with a map and a handler that adds nodes",
    flow: built("again", (f) => {
      const list = f.add("list", step, {});
      f.map("m", step, list.result as never, {});
      f.add("grow", step, { adds: 1 });
    }),
    handlers,
    acts: async (_, run) => {
      await run.result({ timeout: "10m" });
      await run.retry({ nodes: "all" });
      await run.result({ timeout: "10m" });
    },
    ends: ["completed"],
    completed: 7,
  },
  {
    name: "nodes that a handler adds",
    flow: built(
      "growth",
      (f) => {
        f.add("grow", step, { adds: 3 });
        f.add("last", step, { fails: true }, { after: "grow" });
      },
      "collect",
    ),
    handlers,
    ends: ["completed"],
    nodes: { grow: "completed", last: "failed", "added 2": "completed", "behind 2": "completed" },
  },
  {
    name: "a flow that is pruned with its members",
    flow: built("pruned", (f) => {
      f.add("a", step, {});
      f.add("b", step, {}, { after: "a" });
      f.race("r", [step.with({}), step.with({ ms: slow })], { cancelRest: false });
    }),
    options: { retention: { completed: 500 } },
    handlers,
    isPruned: true,
    acts: (_, run) => run.result().catch(() => undefined),
    ends: [],
  },
];

/** The states of nodes by their paths; of the flow under "". */
export function statesOf(jobs: readonly JobRecord[]): Readonly<Record<string, JobState>> {
  return Object.fromEntries(jobs.map(({ id, state }) => [pathOfId(id), state]));
}
