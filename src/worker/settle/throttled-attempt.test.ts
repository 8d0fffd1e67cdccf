import { describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { Throttled } from "../control.ts";
import { handler } from "../handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const api = limit("api", { rate: { max: 10, per: "1s" } });
const call = job<string, string>("call", { limits: [api] });
const v = useVirtualMill();

describe("a throttled attempt", () => {
  test("is given back, and its limit cools down for all its jobs as long as upstream said; others go on", async () => {
    const free = job<string, string>("free");
    let isBusy = true;
    const ran: string[] = [];
    const run = ({ input }: { input: string }): string => {
      ran.push(input);
      if (isBusy && input === "a") throw new Throttled(api, { retryAfter: "30s" });
      return input;
    };
    await v.run(v.mill.work([handler(call, run), handler(free, run)], { concurrency: 1 }));
    const first = await v.run(v.mill.enqueue(call, "a", { retry: { attempts: 1 } }));
    await v.advance(100);
    const second = await v.run(v.mill.enqueue(call, "b"));
    await v.run((await v.run(v.mill.enqueue(free, "c"))).result());
    await v.advance(20_000);
    expect(ran).toEqual(["a", "c"]);
    expect(await v.run(v.mill.jobs.get(first.id))).toMatchObject({
      ...{ state: "ready", attempt: 1, throttles: 1, failures: [], held: { by: "limit", name: "api" } },
      attempts: [{ attempt: 1, outcome: "throttled", limit: "api" }],
    });
    expect(await v.run(v.mill.explain(first.id))).toMatchObject({
      why: expect.stringMatching(
        /cools down after a throttle.*It was throttled once, last by the limit "api"\./,
      ),
    });
    isBusy = false;
    expect(await v.run(Promise.all([first.result(), second.result()]))).toEqual(["a", "b"]);
    expect(ran).toEqual(["a", "c", "a", "b"]);
    expect(await v.run(v.mill.jobs.get(first.id))).toMatchObject({ attempt: 1, throttles: 1 });
  });

  test("without a time waits longer from one throttle to the next, and many at once count once", async () => {
    const starts: number[] = [];
    let left = 3;
    const run = (): string => {
      starts.push(v.platform.now());
      if (left > 0) throw new Throttled("api");
      return "done";
    };
    await v.run(v.mill.limits.define(api));
    await v.run(v.mill.work([handler(call, run)], { concurrency: 5 }));
    const begunAt = v.platform.now();
    const handles = await v.run(v.mill.enqueueMany(["a", "b", "c"].map((input) => call.with(input))));
    // The drained bucket gives one token after the other, so one job at a time meets the next cooldown.
    await v.advance(10);
    expect(starts).toHaveLength(3);
    expect((await v.run(v.mill.limits.state("api"))).coolingUntil!.getTime() - begunAt).toBeLessThanOrEqual(
      1010,
    );
    await v.advance(5000);
    left = 0;
    await v.run(Promise.all(handles.map((handle) => handle.result())));
    const waits = [...new Set(starts.map((at) => Math.round((at - begunAt) / 1000)))];
    expect(waits.slice(0, 3)).toEqual([0, 1, 3]);
  });

  test("works on a limit that limits nothing else", async () => {
    const bare = limit("bare");
    const calls = job<string, string>("calls", { limits: [bare] });
    let isBusy = true;
    const starts: number[] = [];
    const run = (): string => {
      starts.push(v.platform.now());
      if (!isBusy) return "done";
      isBusy = false;
      throw new Throttled(bare, { retryAfter: "5s" });
    };
    await v.run(v.mill.work([handler(calls, run)]));
    const handle = await v.run(v.mill.enqueue(calls, "a"));
    expect(await v.run(handle.result())).toBe("done");
    expect(Math.round(((starts[1] as number) - (starts[0] as number)) / 100)).toBe(50);
  });

  test("of a job that does not use the limit waits by its own clock", async () => {
    const free = job<string, string>("free");
    let isBusy = true;
    const run = (): string => {
      if (isBusy) throw new Throttled("api", { retryAfter: "10s" });
      return "done";
    };
    await v.run(v.mill.limits.define(api));
    await v.run(v.mill.work([handler(free, run)]));
    const handle = await v.run(v.mill.enqueue(free, "a"));
    await v.advance(100);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "scheduled", throttles: 1 });
    isBusy = false;
    expect(await v.run(handle.result())).toBe("done");
  });

  test("ends its job once it was throttled too often, and a replay counts anew", async () => {
    let isBusy = true;
    const run = (): string => {
      if (isBusy) throw new Throttled(api, { retryAfter: "1s" });
      return "done";
    };
    await v.run(v.mill.work([handler(call, run)]));
    const handle = await v.run(v.mill.enqueue(call, "a", { throttlesMax: 2 }));
    await expect(v.run(handle.result())).rejects.toThrow(coded("job-failed"));
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      ...{ reason: "throttles-exhausted", throttles: 3, failures: [{ error: { name: "Throttled" } }] },
    });
    isBusy = false;
    await v.run(v.mill.jobs.retry(handle.id));
    expect(await v.run(handle.result())).toBe("done");
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ throttles: 0 });
  });

  test("by a name that the store does not know gives the attempt back, and is warned of", async () => {
    const lines: string[] = [];
    const log = { debug() {}, info() {}, warn: (line: string) => void lines.push(line), error() {} };
    const mill = millOn(v.store, { log }, v.platform);
    let left = 2;
    const throttling = handler(call, (): string => {
      if (left-- > 0) throw new Throttled("apy", { retryAfter: "20s" });
      return "done";
    });
    await v.run(mill.work([throttling]));
    const handle = await v.run(mill.enqueue(call, "a", { retry: { attempts: 1 } }));
    await v.advance(19_000);
    expect(await v.run(mill.jobs.get(handle.id))).toMatchObject({
      state: "scheduled",
      attempt: 1,
      throttles: 1,
    });
    await v.advance(25_000);
    expect(await v.run(handle.result())).toBe("done");
    expect(await v.run(mill.jobs.get(handle.id))).toMatchObject({ attempt: 1, failures: [] });
    expect(lines).toContain("a handler throttled a limit that the store does not know; its job alone waits");
    await v.run(mill.close());
  });

  test("is cancelled where its cancel was asked for", async () => {
    await v.run(
      v.mill.work([
        handler(call, async ({ signal }) => {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          throw new Throttled(api);
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(call, "a"));
    await v.advance(10);
    await v.run(v.mill.jobs.cancel(handle.id));
    await expect(v.run(handle.result())).rejects.toThrow(coded("job-cancelled"));
  });

  test.each([
    ["a name that is none", () => new Throttled(""), "invalid-name"],
    ["a negative time", () => new Throttled(api, { retryAfter: -1 }), "invalid-duration"],
    ["a key that is no name", () => new Throttled(api, { key: "" }), "invalid-name"],
    ["an unknown option", () => new Throttled(api, { after: 1 } as never), "invalid-option"],
  ])("with %s is refused", (_what, act, code) => {
    expect(act).toThrow(coded(code));
  });
});
