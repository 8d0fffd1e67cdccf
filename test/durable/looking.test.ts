// How durable runs look from outside: their events, and what webhooks and listeners get of them.
import { expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { EventName, MillraceEvent } from "../../src/index.ts";
import { readWebhook } from "../../src/model/events/webhook.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";

const v = useVirtualMill();

const order = job("order", { signals: { go: z.string() }, durable: { version: 1 } });

async function kindsUntil(last: EventName): Promise<MillraceEvent[]> {
  const events: MillraceEvent[] = [];
  for await (const event of v.mill.events({ from: "start", name: "order" })) {
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
