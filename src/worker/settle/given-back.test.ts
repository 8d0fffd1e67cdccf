// Attempts that are given back leave an entry in the job's attempt log and a line; repeats are one entry with a count.
import { expect, test } from "vitest";
import { aClaim, aRoute } from "../../../test/support/builders.ts";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { silentLogger } from "../../engine/log/logger.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { Snooze, Throttled } from "../control.ts";
import { handler } from "../handler.ts";

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

function listening() {
  const lines: Line[] = [];
  const write =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) =>
      void lines.push({ level, message, fields });
  const log = {
    ...{ debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") },
  };
  const of = (pattern: RegExp) => lines.filter(({ message }) => pattern.test(message));
  return { log: { ...silentLogger, ...log }, of };
}

test("snoozes in a row are one entry with their count, and the next end is an entry of its own", async () => {
  const { log, of } = listening();
  const v = await openVirtualMill({ log });
  let left = 3;
  const look = job<null, string>("look", { retry: { attempts: 2, backoff: "1s" } });
  const looking = handler(look, () => {
    left -= 1;
    if (left >= 0) throw new Snooze("2s");
    if (left === -1) throw new Error("no");
    if (left === -2) throw new Snooze("2s");
    return "seen";
  });
  await v.run(v.mill.work([looking]));
  const handle = await v.run(v.mill.enqueue(look, null));
  expect(await v.run(handle.result())).toBe("seen");
  const view = await v.run(v.mill.jobs.get(handle.id));
  expect(view?.attempts).toMatchObject([
    { attempt: 1, outcome: "snoozed", count: 3 },
    { attempt: 1, outcome: "failed", error: { message: "no" } },
    { attempt: 2, outcome: "snoozed" },
    { attempt: 2, outcome: "completed" },
  ]);
  expect(view?.attempts[2]).not.toHaveProperty("count");
  expect(view?.failures).toMatchObject([{ outcome: "failed" }]);
  expect(of(/^attempt \d snoozed/).map(({ level, fields }) => [level, fields["count"]])).toEqual([
    ["info", 1],
    ["debug", 2],
    ["debug", 3],
    ["info", 1],
  ]);
  await v.close();
});

test("a throttled attempt leaves an entry with its limit, and the last one that ends its job is a failure alone", async () => {
  const { log, of } = listening();
  const v = await openVirtualMill({ log });
  const api = limit("api", { rate: { max: 10, per: "1s" } });
  const call = job<null>("call", { limits: [api], throttlesMax: 2 });
  const calling = handler(call, () => {
    throw new Throttled(api, { retryAfter: "1s" });
  });
  await v.run(v.mill.work([calling]));
  const handle = await v.run(v.mill.enqueue(call, null));
  await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
  const { attempts } = (await v.run(v.mill.jobs.get(handle.id))) ?? { attempts: [] };
  expect(attempts).toMatchObject([
    { attempt: 1, outcome: "throttled", limit: "api", count: 2 },
    { attempt: 1, outcome: "failed", error: { name: "Throttled" } },
  ]);
  expect(of(/^attempt 1 throttled/)).toMatchObject([
    { level: "info", fields: { id: handle.id, limit: "api", count: 1 } },
    { level: "debug", fields: { count: 2 } },
  ]);
  await v.close();
});

test("a job that is never given back keeps the short log of an attempt that completed", async () => {
  const v = await openVirtualMill();
  const plain = job<null>("plain");
  await v.run(v.mill.work([handler(plain, () => undefined)]));
  const handle = await v.run(v.mill.enqueue(plain, null));
  await v.run(handle.result());
  const [record] = await v.run(v.store.readJobs([handle.id]));
  expect(record?.attempts).toMatch(/^1 \d+ \d+$/);
  await v.close();
});

test("an attempt that the duty ends after its timeout leaves an entry and a line", async () => {
  const { log, of } = listening();
  const v = await openVirtualMill({ log });
  const slow = job<null>("slow", { queue: "slow", retry: { attempts: 2, backoff: "1h" }, timeout: "1s" });
  const { id } = await v.run(v.mill.enqueue(slow, null));
  const offers = [{ routes: [aRoute({ queue: "slow", name: "slow" })], max: 1, starts: 1 }];
  const { jobs } = await v.run(v.store.claim(aClaim({ leaseMs: 3_600_000, offers })));
  const leases = jobs.map(({ id: of_, seq, fence }) => ({
    id: of_,
    seq,
    fence,
    startedAgoMs: 0,
    attemptEndsInMs: 1000,
  }));
  await v.run(v.store.extendIfLeased({ owner: "w1", leaseMs: 3_600_000, leases, wantsOthers: false }));
  v.mill.duties.start();
  await v.advance(60_000);
  expect(await v.run(v.mill.jobs.get(id))).toMatchObject({
    state: "scheduled",
    attempts: [{ attempt: 1, outcome: "timed-out", worker: "w1", error: { name: "AttemptTimeout" } }],
  });
  expect(of(/^attempt timed out/)).toMatchObject([
    { level: "warn", fields: { id, attempt: 1, worker: "w1" } },
  ]);
  await v.close();
});
