// How durable runs look from outside: their events, and what webhooks and listeners get of them.
import { expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { EventName, MillraceEvent } from "../../src/index.ts";
import { readWebhook } from "../../src/model/events/webhook.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";

const v = useVirtualMill();

const order = job("order", { signals: { go: z.string() }, durable: { version: 1 } });

async function kindsUntil(last: EventName, name = "order"): Promise<MillraceEvent[]> {
  const events: MillraceEvent[] = [];
  for await (const event of v.mill.events({ from: "start", name })) {
    events.push(event);
    if (event.kind === last) break;
  }
  return events;
}

test("a run that waits is suspended, its signal resumes it, and one that comes before its wait is an event too", async () => {
  const { id } = await v.run(v.mill.enqueue(order, null));
  await v.run(v.mill.signal(order, id, "go", "early"));
  await v.run(
    v.mill.work([
      handler(order, async ({ step }) => [
        (await step.waitFor("go")).value,
        (await step.waitFor("go", { timeout: "2d" })).value,
      ]),
    ]),
  );
  await v.advance(10_000);
  const heard: string[] = [];
  v.mill.on("resumed", ({ jobId }) => heard.push(jobId));
  await v.advance(1000);
  await v.run(v.mill.signal(order, id, "go", "late"));
  await v.advance(10_000);
  const events = await v.run(kindsUntil("completed"));
  expect(events.map(({ kind, state }) => `${kind} ${state}`)).toEqual([
    ...["submitted ready", "signalled ready", "claimed running", "started running", "suspended suspended"],
    ...["resumed ready", "claimed running", "started running", "completed completed"],
  ]);
  expect(events.find(({ kind }) => kind === "resumed")).toMatchObject({ jobId: id, dueAt: null });
  expect(heard).toEqual([id]);
});

test("steps are events of jobs that want them, and of no others", async () => {
  const told = job("order", { signals: { go: z.string() }, durable: { version: 1, events: true } });
  const quiet = job("quiet", { durable: { version: 1 } });
  let tries = 0;
  await v.run(
    v.mill.work([
      handler(quiet, ({ step }) => step.run("silent", () => 1)),
      handler(told, async ({ step }) => {
        await step.run("reserve", () => 1, { undo: () => undefined });
        await step.run("flaky", () => {
          tries += 1;
          if (tries === 1) throw new Error("not yet");
        });
        const late = await step.waitFor("go", { timeout: "1m", onTimeout: "return" });
        await step.sleep("nap", "1m");
        await step.run("fail", () => Promise.reject(new Error(late.kind)), { retry: { attempts: 1 } });
      }),
    ]),
  );
  await v.run(v.mill.enqueue(quiet, null));
  await v.run(v.mill.enqueue(told, null));
  await v.advance(10 * 60_000);
  const steps = (await v.run(kindsUntil("failed"))).filter(({ kind }) => kind === "step");
  expect(
    steps.map((event) => (event.kind === "step" ? `${event.stepKind} ${event.step} ${event.outcome}` : "")),
  ).toEqual([
    ...["run reserve#1 completed", "run flaky#1 retrying", "run flaky#1 completed", "wait ?go#1 timed-out"],
    ...["sleep nap#1 completed", "run fail#1 failed", "run reserve#1 undone"],
  ]);
  const others = await v.run(kindsUntil("completed", "quiet"));
  expect(others.filter(({ kind }) => kind === "step")).toEqual([]);
});

test("a wait whose time is over resumes its run", async () => {
  const { id } = await v.run(v.mill.enqueue(order, null));
  await v.run(
    v.mill.work([
      handler(
        order,
        async ({ step }) => (await step.waitFor("go", { timeout: "1h", onTimeout: "return" })).kind,
      ),
    ]),
  );
  await v.advance(3_700_000);
  const events = await v.run(kindsUntil("completed"));
  expect(events.map(({ kind }) => kind).filter((kind) => kind !== "claimed" && kind !== "started")).toEqual([
    ...["submitted", "suspended", "resumed", "completed"],
  ]);
  expect(events.every(({ jobId }) => jobId === id)).toBe(true);
});

test("webhooks take the kinds of durable runs", () => {
  const kinds = ["suspended", "resumed", "signalled"] as const;
  const options = { url: "https://example.org/hook", secret: "a secret of enough length", kinds };
  expect(readWebhook("hook", options).hook.kinds).toEqual(kinds);
});
