// Runs in flight and new code: which of them the code could not continue, found without running a step.
import { afterEach, beforeEach, expect, test } from "vitest";
import { handler, job, Millrace } from "../../src/index.ts";
import { until } from "../support/until.ts";

const make = (version: number) =>
  job<string, string>("made", { signals: {}, durable: { version }, retry: { attempts: 1 } });
const [one, two] = [make(1), make(2)];

let mill: Millrace;
let ran: string[] = [];

beforeEach(async () => {
  ran = [];
  mill = await Millrace.open("sqlite::memory:", { log: false });
  const worker = await mill.work([
    handler(one, async ({ step }) => {
      await step.run("reserve", () => "hold");
      await step.sleep("a day", "1d");
      return "done";
    }),
  ]);
  const { id } = await mill.enqueue(one, "x");
  await until("the run sleeps", async () => (await mill.jobs.get(id))?.state === "scheduled");
  await worker.stop();
});
afterEach(() => mill.close());

test("the same code continues every run, and no code of a step runs", async () => {
  const same = handler(one, async ({ step }) => {
    await step.run("reserve", () => ran.push("reserve"));
    await step.sleep("a day", "1d");
    await step.run("ship", () => ran.push("ship"));
    return "done";
  });
  expect(await mill.runs.check([same])).toEqual({ checked: 1, broken: [] });
  expect(ran).toEqual([]);
});

test("a step that vanished, moved or changed its kind is named with its run", async () => {
  const vanished = handler(one, async () => "done");
  const changed = handler(one, async ({ step }) => {
    await step.sleep("reserve", "1d");
    return "done";
  });
  for (const [code, why] of [
    [vanished, /entry 2 is step\.run "reserve#1", and the handler asks for nothing more/],
    [changed, /step\.run "reserve#1", and the handler asks for step\.sleep "reserve#1"/],
  ] as const) {
    const { checked, broken } = await mill.runs.check([code]);
    expect(checked).toBe(1);
    expect(broken.map((each) => each.why)).toEqual([expect.stringMatching(why)]);
  }
});

test("a version that is not there is named, and found among the older ones", async () => {
  const bare = handler(two, async () => "done");
  expect((await mill.runs.check([bare])).broken).toMatchObject([
    { name: "made", why: "It began with version 1 of the handler, which is not there." },
  ]);
  const both = handler(two, async () => "done", {
    older: {
      1: async ({ step }) => {
        await step.run("reserve", () => "hold");
        await step.sleep("a day", "1d");
        return "done";
      },
    },
  });
  expect((await mill.runs.check([both])).broken).toEqual([]);
});
