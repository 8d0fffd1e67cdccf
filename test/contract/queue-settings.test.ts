/** What an operator sets of a queue at run time, on real stores: other processes take it over while they work. */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { handler, job, queue } from "../../src/index.ts";
import type { FailureReport } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const places = usePlaces();

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  test("slots, attempts and retention of a queue hold for workers of another process without a restart", async () => {
    const open = place();
    const mill = async (): Promise<Millrace> => closeLater(millOn(await open()));
    const [operator, busy] = await Promise.all([mill(), mill()]);
    await operator.queues.set("email", { localConcurrency: 1 });
    const mail = job<number>("mail", { queue: "email" });
    const ends: (() => void)[] = [];
    const worker = await busy.work([
      handler(mail, async ({ input }) => {
        await new Promise<void>((resolve) => ends.push(resolve));
        if (input === 0) throw new Error("no");
      }),
    ]);
    const handles = await operator.enqueueMany([0, 1, 2, 3].map((n) => mail.with(n)));
    await until("one runs", () => ends.length === 1);
    await operator.queues.set("email", { localConcurrency: 4, attempts: 1, retention: { completed: 0 } });
    await until("all run", () => worker.running === 4);
    for (const end of ends) end();
    await until("none runs", () => worker.held === 0);
    expect(await operator.jobs.get(handles[0]!.id)).toMatchObject({ state: "failed", attempt: 1 });
    expect(await operator.jobs.counts()).toEqual({ email: { failed: 1 } });
    expect(await operator.queues.settings("email")).toMatchObject({
      ...{ localConcurrency: 4, attempts: 1, concurrency: null, retention: { completedMs: 0 } },
    });
  });

  test("defaults in code give way to an operator's edit, after the code has changed and in another process", async () => {
    const open = place();
    const mill = async (): Promise<Millrace> => closeLater(millOn(await open()));
    const [old, operator, next] = await Promise.all([mill(), mill(), mill()]);
    const mail = job<number>("mail", { queue: "email" });
    const fails = handler(mail, () => {
      throw new Error("no");
    });
    const before = queue("email", { concurrency: 40, attempts: 1, rate: { max: 90, per: "1m" } });
    const worker = await old.work([fails], { queueDefaults: [before] });
    const { id } = await operator.enqueue(mail, 1);
    await until("it has failed", async () => (await operator.jobs.get(id))?.state === "failed");
    await operator.queues.set("email", { concurrency: 20 });
    await worker.stop();
    const after = queue("email", { concurrency: 80, attempts: 2, paused: true });
    await next.work([fails], { queueDefaults: [after] });
    const inForce = { concurrency: 20, attempts: 2, rate: null, paused: true };
    expect(await operator.queues.settings("email")).toMatchObject(inForce);
    expect(await operator.queues.resume("email")).toMatchObject({ paused: false });
    expect(await next.queues.define(after)).toMatchObject({ ...inForce, paused: false });
    expect(await operator.queues.reset("email")).toMatchObject({ ...inForce, concurrency: 80 });
  });

  test("what a duty ends is reported to onFailed of its process", async () => {
    const open = place();
    const reported: FailureReport[] = [];
    const options = { onFailed: (report: FailureReport) => void reported.push(report) };
    const mill = closeLater(millOn(await open(), options));
    const mail = job<number>("mail", { queue: "email" });
    const { id } = await mill.enqueue(mail, 1, { ttl: "50ms" });
    mill.duties.start();
    await until("it is reported", () => reported.length === 1);
    expect(reported).toEqual([
      {
        ...{ id, name: "mail", queue: "email", state: "expired", reason: "time-to-live" },
        ...{ attempt: 0, worker: null },
      },
    ]);
  });
});
