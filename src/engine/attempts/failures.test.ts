// onFailed: every job that this process ends as failed or expired is reported once, by its worker or by a duty.
import { expect, test } from "vitest";
import { aClaim, aRoute } from "../../../test/support/builders.ts";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";
import type { FailureReport } from "./failures.ts";

const mail = job<number>("mail", { queue: "email", retry: { attempts: 2, backoff: "1s" } });
const lost = job<number>("lost", { queue: "email" });

async function openWith(onFailed: (report: FailureReport) => unknown) {
  const lines: string[] = [];
  const log = { debug() {}, info() {}, warn() {}, error: (message: string) => void lines.push(message) };
  return { v: await openVirtualMill({ onFailed, log, noHandlerGrace: "2m" }), lines };
}

test("onFailed reports what a worker ends, after the last attempt only", async () => {
  const reported: FailureReport[] = [];
  const { v } = await openWith((report) => void reported.push(report));
  const failing = handler(mail, ({ input }) => {
    if (input === 1) throw new Error("no");
  });
  const worker = await v.run(v.mill.work([failing]));
  const [one, two] = await v.run(v.mill.enqueueMany([mail.with(1), mail.with(2)]));
  await v.run(two.result());
  await v.advance(100);
  expect(reported).toEqual([]);
  await v.advance(5000);
  const { id } = one;
  const names = { id, name: "mail", queue: "email" };
  expect(reported).toEqual([
    { ...names, state: "failed", reason: "retries-exhausted", attempt: 2, worker: worker.id },
  ]);
  await v.run(v.mill.close());
});

test("onFailed reports what a duty ends: a crash loop, a deadline, a time-to-live, and no handler", async () => {
  const reported: FailureReport[] = [];
  const { v } = await openWith((report) => void reported.push(report));
  const crashed = await v.run(v.mill.enqueue(mail, 1, { retry: { attempts: 1 } }));
  const route = aRoute({ queue: "email", name: "mail" });
  await v.run(v.store.claim(aClaim({ leaseMs: 100, offers: [{ routes: [route], max: 1, starts: 1 }] })));
  const late = await v.run(v.mill.enqueue(mail, 2, { delay: "1h", deadline: "3s" }));
  const old = await v.run(v.mill.enqueue(lost, 3, { ttl: "4s" }));
  const orphan = await v.run(v.mill.enqueue(lost, 4));
  await v.run(v.mill.work([handler(mail, () => undefined)]));
  await v.advance(10 * 60_000);
  const byDuty = (id: string, name: string, state: string, reason: string, attempt: number) => ({
    ...{ id, name, queue: "email", state, reason, attempt, worker: null },
  });
  expect(reported).toEqual([
    byDuty(crashed.id, "mail", "failed", "crash-loop", 1),
    byDuty(late.id, "mail", "expired", "deadline", 0),
    byDuty(old.id, "lost", "expired", "time-to-live", 0),
    byDuty(orphan.id, "lost", "failed", "no-handler", 0),
  ]);
  await v.run(v.mill.close());
});

test("onFailed that throws hurts nobody, and is logged", async () => {
  const { v, lines } = await openWith(() => {
    throw new Error("pager away");
  });
  const handles = await v.run(v.mill.enqueueMany([lost.with(1, { ttl: "1s" }), lost.with(2, { ttl: "1s" })]));
  v.mill.duties.start();
  await v.advance(10_000);
  for (const { id } of handles) expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ state: "expired" });
  expect(lines).toEqual(["onFailed failed; the job is not affected"]);
  await v.run(v.mill.close());
});
