/** Durable runs whose every commit may be the last of its process, and how each must end, whoever died where. */
import { z } from "zod";
import { flow, handler, job, Unrecoverable } from "../../src/index.ts";
import type { ContextOf, Handler, Millrace, StepContext } from "../../src/index.ts";
import type { EnqueueOptions } from "../../src/engine/submit/job-options.ts";
import type { JobState } from "../../src/model/job/job-state.ts";
import type { SimProcess } from "./actors/sim-process.ts";
import type { RunScenario } from "./crash-world.ts";

const trip = job("trip", {
  input: z.object({ round: z.number() }),
  signals: { go: z.string(), note: z.string(), manager: z.object({ ok: z.boolean() }) },
  durable: { version: 1 },
  retry: { attempts: 5, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});
const double = job<number, number>("double", { retry: { attempts: 5, backoff: "1s" } });

export const runId = "trip-1";

export interface EndedRun extends RunScenario {
  readonly state: JobState;
  /** Of a run that completes. */
  readonly result?: unknown;
  /** What every life without a crash undoes, in order. */
  readonly undone?: readonly string[];
}

type Trip = ContextOf<typeof trip>;
type Work = (context: StepContext) => string;
/** @param booked the code of a step: it notes its key, and returns its name */
type Travel = (context: Trip, booked: Work) => unknown;

function begun(travel: Travel): RunScenario["handlers"] {
  return (_, effect): readonly Handler[] => {
    const booked: Work = ({ idempotencyKey }) => {
      effect(idempotencyKey);
      return idempotencyKey.slice(idempotencyKey.lastIndexOf(":") + 1);
    };
    return [
      handler(double, ({ input }) => input * 2),
      handler(trip, (context) => travel(context as Trip, booked) as never),
    ];
  };
}

type Acts = (mill: Millrace, process: SimProcess) => Promise<unknown>;

function operated(
  acts: Acts = async () => undefined,
  options: Pick<EnqueueOptions, "delay" | "deadline"> = {},
): Acts {
  return async (mill, process) => {
    await mill.enqueue(trip, { round: 1 }, { ...options, id: runId });
    await acts(mill, process);
  };
}

const signal = (mill: Millrace, name: "go" | "note", value: string): Promise<unknown> =>
  mill.signal(runId, name, value, { key: `${name} ${value}` });

/** Books a flight and a hotel. The undo of each is an effect of its own. */
function undoing(then: (context: Trip) => unknown): RunScenario["handlers"] {
  return (process, effect) =>
    begun(async (context, booked) => {
      const undo = (what: string): void => effect(`no ${what}`);
      for (const name of ["flight", "hotel"]) await context.step.run(name, booked, { undo });
      return then(context);
    })(process, effect);
}

const undone = ["no hotel#1", "no flight#1"];

export const runScenarios: readonly EndedRun[] = [
  {
    name: "steps side by side, one of which fails twice",
    handlers: begun(({ step }, booked) =>
      Promise.all([
        step.run("a", booked),
        step.run(
          "b",
          (context) => {
            if (context.attempt < 3) throw new Error("not yet");
            return booked(context);
          },
          { retry: { attempts: 5, backoff: "1s" } },
        ),
        step.run("c", booked),
      ]),
    ),
    operates: operated(),
    state: "completed",
    result: ["a#1", "b#1", "c#1"],
  },
  {
    name: "a sleep between two steps",
    handlers: begun(async ({ step }, booked) => {
      const before = await step.run("a", booked);
      await step.sleep("nap", "20s");
      return [before, await step.run("a", booked)];
    }),
    operates: operated(),
    state: "completed",
    result: ["a#1", "a#2"],
  },
  {
    name: "signals that come early, late and twice",
    handlers: begun(async ({ step }, booked) => {
      await step.run("a", booked);
      const early = await step.waitFor("note");
      const late = await step.waitFor("go");
      await step.sleep("nap", "3s");
      return [early.value, late.value, (await step.waitFor("note")).value];
    }),
    operates: operated(
      async (mill, process) => {
        await signal(mill, "note", "1");
        await process.sleep(2000);
        await signal(mill, "go", "2");
        await signal(mill, "go", "2");
        await signal(mill, "note", "1");
        await signal(mill, "note", "3");
      },
      { delay: "1s" },
    ),
    state: "completed",
    result: ["1", "2", "3"],
  },
  {
    name: "a race of a signal and a sleep, whose loser is closed",
    handlers: begun(async ({ step }, booked) => {
      const won = await step.race({
        go: async () => (await step.waitFor("go")).value,
        late: async () => {
          await step.sleep("long", "5m");
          return step.run("never", booked);
        },
      });
      return [won.winner, won.value, await step.run("a", booked)];
    }),
    operates: operated(async (mill, process) => {
      await process.sleep(2000);
      await signal(mill, "go", "now");
    }),
    state: "completed",
    result: ["go", "now", "a#1"],
  },
  {
    name: "each of four items in two steps and a sleep, two at once",
    handlers: begun(({ step }, booked) =>
      step.each(
        "items",
        [1, 2, 3, 4],
        String,
        async (item, own) => {
          await own.run("a", booked);
          await own.sleep("nap", "1s");
          return own.run("b", (context) => (booked(context), item));
        },
        { concurrency: 2 },
      ),
    ),
    operates: operated(),
    state: "completed",
    result: [1, 2, 3, 4],
  },
  {
    name: "an approval by two",
    handlers: begun(async ({ step }, booked) => {
      await step.run("a", booked);
      const { approved, answers } = await step.approval("manager", { of: 2, timeout: "1h" });
      await step.run("b", booked);
      return [approved, answers.length];
    }),
    operates: operated(async (mill, process) => {
      for (const source of ["ann", "bob"]) {
        // After the crash they may both have answered.
        if ((await mill.jobs.get(runId))?.state === "completed") return;
        const token = await mill.approvals.token(runId, "manager", { source, expires: "1h" });
        await process.sleep(1000);
        await mill.approvals.answer(token, { ok: true });
      }
    }),
    state: "completed",
    result: [true, 2],
  },
  {
    name: "a job and a flow that are invoked, and a job that is enqueued",
    handlers: begun(async ({ step }) => {
      await step.enqueue(double, 1);
      const sums = flow("sums");
      sums.add("a", double, 2);
      sums.add("b", double, 3);
      return Promise.all([step.invoke(double, 4), step.invoke(sums)]);
    }),
    operates: operated(),
    state: "completed",
    result: [8, { a: 4, b: 6 }],
  },
  {
    name: "a failure after two steps, which are undone",
    handlers: undoing(() => {
      throw new Unrecoverable("no taxi");
    }),
    operates: operated(),
    state: "failed",
    undone,
  },
  {
    name: "three rounds by continueWith, with a signal that only the last one takes",
    handlers: begun(async ({ step, input }, booked) => {
      await step.run("a", booked);
      if (input.round < 3) step.continueWith({ round: input.round + 1 });
      return [input.round, (await step.waitFor("go")).value];
    }),
    operates: operated((mill) => signal(mill, "go", "now")),
    state: "completed",
    result: [3, "now"],
  },
  {
    name: "a cancel while it waits for a child and a signal, with undo",
    handlers: undoing(({ step }) =>
      Promise.all([step.invoke(double, 1, { delay: "1h" }), step.waitFor("go")]),
    ),
    operates: operated(async (mill, process) => {
      await process.sleep(8000);
      await mill.jobs.cancel(runId, "enough");
    }),
    state: "cancelled",
    undone,
  },
  {
    name: "a deadline while it waits, with undo",
    handlers: undoing(({ step }) => step.waitFor("go")),
    operates: operated(async () => undefined, { deadline: "20s" }),
    state: "expired",
    undone,
  },
];
