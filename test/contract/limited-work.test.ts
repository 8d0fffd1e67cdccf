/**
 * Limits, throttles and pauses on real stores, real time and connections of their own: what one process sets or gives
 * back is felt by the others at once.
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { batchHandler, handler, job, limit, Throttled } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { hangMs } from "../support/hang-ms.ts";

const places = usePlaces();
const timeout = hangMs;

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();
  const processes = (): (() => Promise<Millrace>) => {
    const open = place();
    return async () => closeLater(millOn(await open()));
  };

  test("a limit holds over the workers of several processes, and each end lets the next start", async () => {
    const mill = processes();
    const slack = limit("slack", { concurrency: 3 });
    const send = job<number>("send", { limits: [slack] });
    let [running, most, ran] = [0, 0, 0];
    const run = async (): Promise<void> => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      ran += 1;
    };
    for (let count = 0; count < 3; count++)
      await (await mill()).work([handler(send, run)], { concurrency: 4 });
    const producer = await mill();
    const given = Array.from({ length: 60 }, (_, n) => send.with(n));
    const handles = [
      ...(await producer.enqueueMany(given)),
      ...(await Promise.all(given.slice(0, 20).map(({ input }) => producer.enqueue(send, input)))),
    ];
    await Promise.all(handles.map((handle) => handle.result({ timeout })));
    expect([ran, most <= 3]).toEqual([80, true]);
    await until("nothing is held", async () => (await producer.limits.state("slack")).held === 0);
  });

  test("a throttle of one process closes the limit for the others, and its clock opens it again", async () => {
    const mill = processes();
    const api = limit("api", { concurrency: 5 });
    const call = job<number, number>("call", { limits: [api] });
    const starts: number[] = [];
    const run = ({ input, attempt }: { input: number; attempt: number }): number => {
      starts.push(input);
      if (starts.length === 1) throw new Throttled("api", { retryAfter: "300ms" });
      return attempt;
    };
    const producer = await mill();
    await producer.limits.define(api);
    for (let count = 0; count < 2; count++)
      await (await mill()).work([handler(call, run)], { concurrency: 1 });
    const first = await producer.enqueue(call, 1);
    await until("it was throttled", async () => (await producer.jobs.get(first.id))?.throttles === 1);
    const second = await producer.enqueue(call, 2);
    expect(await first.result({ timeout })).toBe(1);
    expect(await second.result({ timeout })).toBe(1);
    expect(starts.toSorted((one, other) => one - other)).toEqual([1, 1, 2]);
  });

  test("a limit that learns rises in full use to what is set, and a throttle of any process halves it", async () => {
    const mill = processes();
    const api = limit("api", { concurrency: 4, learn: { from: 1, every: "150ms" } });
    const call = job<number>("call", { limits: [api] });
    const ends: (() => void)[] = [];
    let [running, most] = [0, 0];
    const run = async (): Promise<void> => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => ends.push(resolve));
      running -= 1;
    };
    const [first, second] = [await mill(), await mill()];
    for (const each of [first, second]) await each.work([handler(call, run)], { concurrency: 8 });
    await first.enqueueMany(Array.from({ length: 200 }, (_, n) => call.with(n)));
    await until("it has learned that 4 can be borne", async () => {
      // The oldest ends, so that the others keep the limit in full use meanwhile.
      ends.shift()?.();
      return (await second.limits.state("api")).learned === 4;
    });
    await until("all 4 run", () => running === 4);
    expect(await second.limits.throttle("api", { retryAfter: "50ms" })).toMatchObject({
      learned: 2,
      free: 0,
    });
    expect(most).toBe(4);
    for (const each of [first, second]) await each.queues.pause("default");
    await until("all have ended", () => (ends.splice(0).forEach((end) => end()), running === 0));
  });

  test("a pause by one process holds for what another one has claimed and not started", async () => {
    const mill = processes();
    const mail = job<number>("mail", { queue: "email" });
    let calls = 0;
    const gather = batchHandler(mail, { size: 3, wait: "10m" }, async () => void (calls += 1));
    const worker = await (await mill()).work([gather]);
    const operator = await mill();
    await operator.enqueueMany([mail.with(1), mail.with(2)]);
    await until("they are claimed", () => worker.held === 2);
    expect(await operator.queues.pause("email")).toMatchObject({ paused: true });
    await until("they went back", () => worker.held === 0);
    const third = await operator.enqueue(mail, 3);
    expect(await operator.explain(third.id)).toMatchObject({ held: { by: "pause", name: "email" } });
    expect([await operator.jobs.counts(), calls]).toEqual([{ email: { ready: 3, held: 3 } }, 0]);
    await operator.queues.closeIntake("email");
    await expect(operator.enqueue(mail, 4)).rejects.toMatchObject({ code: "intake-closed" });
    await operator.queues.resume("email");
    await third.result({ timeout });
    expect(calls).toBe(1);
  });

  test("a throttled key takes back what was claimed of it and not started, in every process", async () => {
    const mill = processes();
    const api = limit("api", { perKey: { rate: { max: 100, per: "1s" } } });
    const call = job<string>("call", { limits: [api.use({ key: (tenant) => tenant })] });
    const gather = batchHandler(call, { size: 9, wait: "10m" }, async () => {});
    const [here, elsewhere] = [await mill(), await mill()];
    const worker = await here.work([gather]);
    const handles = await Promise.all(["a", "b", "c"].map((tenant) => here.enqueue(call, tenant)));
    await until("they are claimed", () => worker.held === 3);
    await here.limits.throttle("api", { key: "a", retryAfter: "1h" });
    await until("the first went back", () => worker.held === 2);
    await elsewhere.limits.throttle("api", { key: "b", retryAfter: "1h" });
    await until("the second went back", () => worker.held === 1);
    for (const { id } of handles.slice(0, 2))
      expect(await here.jobs.get(id)).toMatchObject({
        ...{ state: "ready", failures: [], held: { by: "limit", name: "api" } },
      });
    const { jobs: running } = await here.jobs.list({ state: "running" });
    expect(running.map(({ input }) => input)).toEqual(["c"]);
  });
});
