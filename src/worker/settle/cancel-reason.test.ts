import { routeNumber } from "../../model/routing/route.ts";
import { describe, expect, test } from "vitest";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { handler } from "../handler.ts";

const v = useVirtualMill();

const slow = job("slow");
const reason = "account closed";

/** Runs until its signal fires, then throws. */
async function startSlow(): Promise<string> {
  const started = deferred();
  const run = handler(slow, ({ signal }) => {
    started.resolve();
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await v.run(v.mill.work([run], { lease: "3s" }));
  const { id } = await v.run(v.mill.enqueue(slow, {}));
  await v.run(started.promise);
  return id;
}

async function lastEventOf(id: string): Promise<unknown> {
  const { records } = await v.run(v.store.readFeed({ after: 0, max: 1000 }));
  return records.flatMap(({ events }) => events).findLast((event) => event.id === id);
}

describe("the reason given to cancel a running job", () => {
  test("is how the job ends: in its history, in its event and in the error of whoever waits", async () => {
    const id = await startSlow();
    await v.run(v.mill.jobs.cancel(id, reason));
    await expect(v.run(v.mill.handle(id).result())).rejects.toThrow(reason);
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({
      state: "cancelled",
      reason,
      cancelReason: reason,
      failures: [{ outcome: "cancelled" }],
    });
    expect(await v.run(v.mill.explain(id))).toMatchObject({ why: `It ended as cancelled: ${reason}.` });
    expect(await lastEventOf(id)).toMatchObject({ kind: "cancelled", extra: reason });
  });

  test("is shown while the handler unwinds, and asking again without one does not lose it", async () => {
    const started = deferred();
    const release = deferred<string>();
    const run = handler(slow, () => (started.resolve(), release.promise));
    await v.run(v.mill.work([run]));
    const { id } = await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    await v.run(v.mill.jobs.cancel(id, reason));
    await v.run(v.mill.jobs.cancel(id));
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ cancelAsked: true, cancelReason: reason });
    expect((await v.run(v.mill.explain(id)))?.why).toContain(`its cancel was asked for (${reason})`);
    release.reject(new Error("unwound"));
    await expect(v.run(v.mill.handle(id).result())).rejects.toThrow(reason);
    expect((await v.run(v.mill.jobs.get(id)))?.failures).toMatchObject([
      { outcome: "cancelled", at: expect.any(Date), error: { message: "unwound" } },
    ]);
  });

  test("is kept when the handler wanted to try again and only the refused settle shows the cancel", async () => {
    const started = deferred();
    const release = deferred();
    const run = handler(slow, () => (started.resolve(), release.promise));
    await v.run(v.mill.work([run]));
    const { id } = await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    // Asked for while the settle is on its way.
    const changeIf = v.store.changeIf.bind(v.store);
    const settle = v.store.settleIfLeased.bind(v.store);
    let isAsked = false;
    v.store.settleIfLeased = async (settles) => {
      if (!isAsked) {
        isAsked = true;
        const next = { to: "same", event: "cancel-asked", cancelAsked: true } as const;
        const attempts = JSON.stringify({ entries: [], dropped: 0, cancelReason: reason });
        await changeIf([{ id, cases: [{ guard: { states: ["running"] }, next, attempts }] }]);
      }
      return settle(settles);
    };
    release.reject(new Error("boom"));
    await expect(v.run(v.mill.handle(id).result())).rejects.toThrow(reason);
  });

  test("is kept when the worker dies meanwhile and the reclaim duty ends the job", async () => {
    const { id } = await v.run(v.mill.enqueue(slow, {}));
    await v.run(
      v.store.claim({
        owner: "dead",
        leaseMs: 1000,
        offers: [{ routes: [routeNumber("default", "slow")], max: 1 }],
      }),
    );
    await v.run(v.mill.jobs.cancel(id, reason));
    v.mill.duties.start();
    await expect(v.run(v.mill.handle(id).result())).rejects.toThrow(reason);
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ state: "cancelled", reason });
  });

  test("is not needed to end the job: with a store that cannot be read it ends as asked", async () => {
    const id = await startSlow();
    const read = v.store.readJobs.bind(v.store);
    let isAsked = false;
    const changeIf = v.store.changeIf.bind(v.store);
    v.store.changeIf = (changes) => ((isAsked = true), changeIf(changes));
    v.store.readJobs = (ids) =>
      isAsked ? Promise.reject(new MillraceError("store-corrupt", "its page is damaged")) : read(ids);
    await v.run(v.mill.jobs.cancel(id, reason));
    await v.advance(1000);
    v.store.readJobs = read;
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ state: "cancelled", reason: "asked" });
  });

  test("of an earlier round does not come back after a replay", async () => {
    const id = await startSlow();
    await v.run(v.mill.jobs.cancel(id, reason));
    await expect(v.run(v.mill.handle(id).result())).rejects.toThrow(reason);
    await v.run(v.mill.jobs.retry(id));
    await v.advance(100);
    await v.run(v.mill.jobs.cancel(id));
    await expect(v.run(v.mill.handle(id).result())).rejects.toThrow("(asked)");
  });

  test("must be a text", async () => {
    await expect(v.run(v.mill.jobs.cancel("x", 7 as never))).rejects.toMatchObject({
      code: "invalid-option",
    });
  });
});
