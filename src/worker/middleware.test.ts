import { describe, expect, test } from "vitest";
import { millOn } from "../../test/support/mill-on.ts";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { batchHandler, handler } from "./handler.ts";
import type { Hooks } from "./middleware.ts";

const v = useVirtualMill();
const plain = job<number, number>("plain", { retry: { attempts: 2, backoff: "1s" } });

describe("hooks", () => {
  test("are called before and after each attempt, outside middleware, and change nothing", async () => {
    const calls: string[] = [];
    const say = (line: string): void => void calls.push(line);
    const hooks: Hooks = {
      before: async ({ attempt }) => say(`before ${attempt}`),
      after: ({ attempt }, outcome) => {
        say(`after ${attempt} ${"error" in outcome ? String(outcome.error) : String(outcome.result)}`);
        return "not looked at";
      },
    };
    const worked = handler(plain, ({ attempt, input }) => {
      say("handler");
      if (attempt === 1) throw new Error("not yet");
      return input;
    });
    const middleware = [async (_: unknown, next: () => Promise<unknown>) => (say("middleware"), next())];
    await v.run(v.mill.work([worked], { hooks, middleware }));
    const handle = await v.run(v.mill.enqueue(plain, 7));
    expect(await v.run(handle.result())).toBe(7);
    expect(calls).toEqual([
      ...["before 1", "middleware", "handler", "after 1 Error: not yet"],
      ...["before 2", "middleware", "handler", "after 2 7"],
    ]);
  });

  test("are called for each job of a batch", async () => {
    const ended: number[] = [];
    const hooks: Hooks = { after: ({ input }) => void ended.push(input as number) };
    const batch = batchHandler(plain, { size: 3 }, async (contexts) => contexts.map(({ input }) => input));
    await v.run(v.mill.work([batch], { hooks }));
    const handles = await v.run(v.mill.enqueueMany([1, 2, 3].map((input) => plain.with(input))));
    await v.run(Promise.all(handles.map((handle) => handle.result())));
    expect(ended.toSorted((one, other) => one - other)).toEqual([1, 2, 3]);
  });

  test("that throw fail the attempt before it, and are logged after it", async () => {
    const lines: unknown[] = [];
    const error = (message: string, fields: unknown): void => void lines.push([message, fields]);
    const mill = millOn(v.store, { log: { debug() {}, info() {}, warn() {}, error } }, v.platform);
    let isRun = false;
    const hooks: Hooks = {
      before: ({ input }) => {
        if (input === 1) throw new Error("not before");
      },
      after: () => Promise.reject(new Error("not after")),
    };
    await v.run(mill.work([handler(plain, ({ input }) => ((isRun = true), input))], { hooks }));
    const failed = await v.run(mill.enqueue(plain, 1, { retry: { attempts: 1 } }));
    await expect(v.run(failed.result())).rejects.toMatchObject({ code: "job-failed" });
    expect(isRun).toBe(false);
    const { failures } = (await v.run(mill.jobs.get(failed.id)))!;
    expect(failures).toMatchObject([{ error: { message: "not before" } }]);
    expect(await v.run((await v.run(mill.enqueue(plain, 2))).result())).toBe(2);
    expect(lines).toContainEqual([
      "the hook after an attempt failed; the job is not affected",
      expect.objectContaining({ error: new Error("not after"), name: "plain" }),
    ]);
    await v.run(mill.close());
  });

  test.each([
    [{ before: 1 }, "must be functions"],
    [{ during: () => undefined }, 'unknown option "during"'],
    [[], "must be an object"],
  ])("%j are refused", async (hooks, sentence) => {
    const starting = v.mill.work([handler(plain, () => 1)], { hooks: hooks as Hooks });
    await expect(v.run(starting)).rejects.toThrow(sentence);
  });
});
