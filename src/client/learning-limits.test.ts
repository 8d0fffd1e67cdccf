import { describe, expect, test } from "vitest";
import { millOn } from "../../test/support/mill-on.ts";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { limit } from "../engine/limits/limit-definition.ts";
import { Throttled } from "../worker/control.ts";
import { handler } from "../worker/handler.ts";
import type { LimitState } from "./limits.ts";

const coded = (code: string) => expect.objectContaining({ code });
const v = useVirtualMill();
const api = limit("api", { concurrency: 8, learn: { from: 2, every: "1s" } });
const call = job<number>("call", { limits: [api] });
const state = (): Promise<LimitState> => v.run(v.mill.limits.state("api"));
const pass = (ms: number): Promise<void> => new Promise((resolve) => void v.platform.setTimer(ms, resolve));

describe("a limit that learns", () => {
  test("rises from its floor to its concurrency while it is in full use, over two processes, and never above", async () => {
    const seen = { running: 0, most: 0 };
    const run = handler(call, async () => {
      seen.most = Math.max(seen.most, ++seen.running);
      await pass(100);
      seen.running -= 1;
    });
    const other = millOn(v.store, {}, v.platform);
    await v.run(v.mill.enqueueMany(Array.from({ length: 1500 }, (_, n) => call.with(n))));
    expect(await state()).toMatchObject({ concurrency: 8, learned: 2, free: 2, learn: { from: 2, step: 1 } });
    for (const mill of [v.mill, other]) await v.run(mill.work([run], { concurrency: 10 }));
    await v.advance(900);
    expect([(await state()).learned, seen.most]).toEqual([2, 2]);
    await v.advance(1500);
    expect([3, 4]).toContain((await state()).learned);
    await v.advance(15_000);
    expect(await state()).toMatchObject({ learned: 8, held: 8, free: 0 });
    expect(seen.most).toBe(8);
    await v.run(v.mill.limits.edit("api", { concurrency: 5 }));
    expect(await state()).toMatchObject({ concurrency: 5, learned: 5 });
    await v.run(v.mill.limits.reset("api"));
    expect(await state()).toMatchObject({ concurrency: 8, learned: 2 });
    await v.run(other.close());
  });

  test("halves once per cooldown, however many throttles come in it, and never below its floor", async () => {
    const busy = handler(call, () => pass(100));
    await v.run(v.mill.enqueueMany(Array.from({ length: 1000 }, (_, n) => call.with(n))));
    const worker = await v.run(v.mill.work([busy], { concurrency: 10 }));
    await v.advance(15_000);
    expect(await state()).toMatchObject({ learned: 8 });
    await v.run(worker.stop());
    const throttle = (): Promise<LimitState> => v.run(v.mill.limits.throttle("api", { retryAfter: "1s" }));
    expect([(await throttle()).learned, (await throttle()).learned]).toEqual([4, 4]);
    await v.advance(1100);
    expect((await throttle()).learned).toBe(2);
    await v.advance(1100);
    expect((await throttle()).learned).toBe(2);
  });

  test("does not rise while it is not in full use, nor soon after a throttle", async () => {
    let calls = 0;
    const run = handler(call, () => {
      if (++calls === 3) throw new Throttled(api, { retryAfter: "10s" });
    });
    await v.run(v.mill.work([run]));
    for (let count = 0; count < 20; count++) {
      await v.run(v.mill.enqueue(call, count));
      await v.advance(600);
    }
    expect(await state()).toMatchObject({ learned: 2 });
  });

  test("also rises if all permits are taken by code", async () => {
    await v.run(v.mill.limits.define(api));
    const round = async (): Promise<void> => {
      const permits = await Promise.all([1, 2].map(() => v.mill.limits.acquire("api")));
      await pass(400);
      await Promise.all(permits.map((permit) => permit.release()));
    };
    for (let count = 0; count < 4; count++) await v.run(round());
    expect((await state()).learned).toBeGreaterThan(2);
  });

  test("refuses a weight above its floor, which might never pass, and a definition that makes no sense", async () => {
    expect(() => api.use({ weight: 3 })).toThrow(coded("invalid-option"));
    expect(() => limit("other", { learn: {} })).toThrow(coded("invalid-option"));
    expect(() => limit("other", { concurrency: 2, learn: { from: 3 } })).toThrow(coded("invalid-option"));
    await v.run(v.mill.limits.define(api));
    await expect(v.run(v.mill.limits.define(limit("api", { concurrency: 8 })))).rejects.toEqual(
      coded("limit-conflict"),
    );
    await expect(v.run(v.mill.limits.edit("api", { learn: null } as object))).rejects.toEqual(
      coded("invalid-option"),
    );
  });
});
