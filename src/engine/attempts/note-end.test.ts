// Jobs that a duty ends are in the metrics, once each, beside the attempts that workers count.
import { expect, test } from "vitest";
import { aClaim, aRoute } from "../../../test/support/builders.ts";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";

const mail = job<number>("mail", { queue: "email", retry: { attempts: 1 } });
const lost = job<number>("lost", { queue: "email" });
const slow = job<number>("slow", { queue: "slow", retry: { attempts: 1 }, timeout: "1s" });

test("a crash loop, a timeout, a deadline, a time-to-live and a missing handler count as outcomes and as no attempt", async () => {
  const v = await openVirtualMill({ noHandlerGrace: "2m" });
  await v.run(v.mill.enqueueMany([mail.with(1), slow.with(2)]));
  const routes = [aRoute({ queue: "email", name: "mail" }), aRoute({ queue: "slow", name: "slow" })];
  const offers = routes.map((route) => ({ routes: [route], max: 1, starts: 1 }));
  // One worker that dies, and one that renews its lease for ever.
  await v.run(v.store.claim(aClaim({ leaseMs: 100, offers: offers.slice(0, 1) })));
  const { jobs } = await v.run(v.store.claim(aClaim({ leaseMs: 3_600_000, offers: offers.slice(1) })));
  const leases = jobs.map(({ id, seq, fence }) => ({
    id,
    seq,
    fence,
    startedAgoMs: 0,
    attemptEndsInMs: 1000,
  }));
  await v.run(v.store.extendIfLeased({ owner: "w1", leaseMs: 3_600_000, leases, wantsOthers: false }));
  await v.run(v.mill.enqueue(mail, 3, { delay: "1h", deadline: "3s" }));
  await v.run(v.mill.enqueue(lost, 4, { ttl: "4s" }));
  await v.run(v.mill.enqueue(lost, 5));
  await v.run(v.mill.work([handler(mail, () => undefined)]));
  await v.run((await v.run(v.mill.enqueue(mail, 6))).result());
  await v.advance(10 * 60_000);
  const { all, series } = await v.run(v.mill.metrics.read());
  expect(all).toMatchObject({
    outcomes: { completed: 1, failed: 3, expired: 2 },
    ...{ attempts: 1, run: { count: 1 }, total: { count: 1 } },
  });
  expect(
    Object.fromEntries(series.map(({ name, points }) => [name, points.map(({ outcomes }) => outcomes)])),
  ).toEqual({
    lost: [{ expired: 1 }, { failed: 1 }],
    mail: [{ completed: 1, expired: 1, failed: 1 }],
    slow: [{ failed: 1 }],
  });
  await v.run(v.mill.close());
});
