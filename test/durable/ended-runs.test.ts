// Whoever ends a run badly lets it undo its recorded steps first: through client, duties and worker, over SQLite on
// virtual time.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { flow, handler, job, Unrecoverable } from "../../src/index.ts";
import type { JobView } from "../../src/index.ts";
import type { Store } from "../../src/store/store.ts";
import { millOn } from "../support/mill-on.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";
import { deferred } from "../support/virtual/virtual-mill.ts";

const v = useVirtualMill();

const trip = job("trip", {
  input: z.object({ id: z.string() }),
  signals: { go: z.string() },
  durable: { version: 1 },
  retry: { attempts: 2, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

const view = async (id: string): Promise<JobView> => (await v.run(v.mill.jobs.get(id))) as JobView;

interface Log {
  readonly log: string[];
}

/** Books a flight and a hotel, waits for `go`, and then does what the test says. */
async function travel(
  { log }: Log,
  then: () => unknown = () => "home",
  undo: () => unknown = () => {},
): Promise<void> {
  await v.run(
    v.mill.work([
      handler(trip, async ({ step }) => {
        for (const name of ["flight", "hotel"])
          await step.run(name, () => (log.push(name), name), {
            undo: async (value) => {
              await undo();
              log.push(`no ${value}`);
            },
          });
        await step.waitFor("go");
        return then() as string;
      }),
    ]),
  );
}

const booked = ["flight", "hotel"];
const undone = [...booked, "no hotel", "no flight"];

describe("steps are undone, the last one first, before a run ends", () => {
  test("that is cancelled while it waits", async () => {
    const log: string[] = [];
    await travel({ log });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(1000);
    expect((await view(id)).state).toBe("suspended");
    expect(await v.run(v.mill.jobs.cancel(id, "changed my mind"))).toBe("signalled");
    expect(await v.run(v.mill.jobs.cancel(id))).toBe("signalled");
    await v.advance(2000);
    expect(await view(id)).toMatchObject({ state: "cancelled", reason: "changed my mind" });
    expect(log).toEqual(undone);
  });

  test("that is cancelled in the next round, too", async () => {
    const log: string[] = [];
    await travel({ log });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
    for (const reason of ["changed my mind", "changed it again"]) {
      await v.advance(1000);
      expect((await view(id)).state).toBe("suspended");
      expect(await v.run(v.mill.jobs.cancel(id, reason))).toBe("signalled");
      await v.advance(2000);
      expect(await view(id)).toMatchObject({ state: "cancelled", reason });
      expect(log.splice(0)).toEqual(undone);
      await v.run(v.mill.jobs.retry(id, { fromStart: true }));
    }
  });

  test("that is cancelled by a filter, or revoked after its cancel, while a step runs", async () => {
    const log: string[] = [];
    const { promise } = deferred();
    await travel({ log });
    await v.run(
      v.mill.work([
        handler(job("slow", { durable: { version: 1 } }), async ({ step }) => {
          await step.run("a", () => void log.push("a"), { undo: () => log.push("no a") });
          await step.run("hangs", ({ signal }) =>
            Promise.race([promise, new Promise((_, reject) => signal.addEventListener("abort", reject))]),
          );
        }),
      ]),
    );
    const slow = await v.run(v.mill.enqueue(job("slow", { durable: { version: 1 } }), {}));
    await v.advance(1000);
    expect((await view(slow.id)).state).toBe("running");
    expect(await v.run(v.mill.jobs.cancel({ name: "slow" }))).toMatchObject({ signalled: 1 });
    await v.advance(15_000);
    expect(await view(slow.id)).toMatchObject({ state: "cancelled", reason: "asked" });
    expect(log).toEqual(["a", "no a"]);
  });

  test("that times out and is abandoned before it learns that a step was recorded", async () => {
    const log: string[] = [];
    const answers = Promise.withResolvers<void>();
    let held = 0;
    const slow: Store = {
      ...v.store,
      recordIfLeased: async (request) => {
        const answer = await v.store.recordIfLeased(request);
        const isSold = request.some(({ entries = [] }) => entries.some(({ body }) => body.includes("sold")));
        if (isSold) {
          held += 1;
          await answers.promise;
        }
        return answer;
      },
      readJournal: async (request) => {
        if (held > 0) await answers.promise;
        return v.store.readJournal(request);
      },
      close: async () => undefined,
    };
    const mill = millOn(slow, { log: false }, v.platform);
    const hasty = job("hasty", { durable: { version: 1 }, timeout: "1s", retry: { attempts: 1 } });
    const handles = handler(hasty, async ({ step }) => {
      await step.run("a", () => "sold", { undo: () => log.push("no a") });
    });
    await v.run(mill.work([handles], { abortGrace: "1s" }));
    const { id } = await v.run(mill.enqueue(hasty, {}));
    await v.advance(3000);
    expect(held).toBeGreaterThan(0);
    answers.resolve();
    await v.advance(60_000);
    expect(await view(id)).toMatchObject({ state: "failed" });
    expect(log).toEqual(["no a"]);
    await v.run(mill.close());
  });

  test("that meets its deadline while it waits; the deadline does not stop the undos", async () => {
    const log: string[] = [];
    await travel({ log });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }, { deadline: "1h" }));
    await v.advance(3_700_000);
    expect(await view(id)).toMatchObject({ state: "expired", reason: "deadline" });
    expect(log).toEqual(undone);
  });

  test("whose handler threw for good", async () => {
    const log: string[] = [];
    await travel({ log }, () => {
      throw new Unrecoverable("no visa");
    });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(1000);
    await v.run(v.mill.signal(id, "go", "now"));
    await v.advance(5000);
    const failed = await view(id);
    expect(failed).toMatchObject({ state: "failed", reason: "unrecoverable" });
    expect(failed.attempts.at(-1)?.error?.message).toBe("no visa");
    expect(log).toEqual(undone);
  });

  test("whose result its schema refuses, and whose retries are used up", async () => {
    const log: string[] = [];
    await travel({ log }, () => {
      throw new Error("again");
    });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(1000);
    await v.run(v.mill.signal(id, "go", "now"));
    await v.advance(10_000);
    expect(await view(id)).toMatchObject({ state: "failed", reason: "retries-exhausted" });
    expect(log).toEqual(undone);
  });

  test("and a run that completes undoes nothing", async () => {
    const log: string[] = [];
    await travel({ log });
    const handle = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.run(v.mill.signal(handle.id, "go", "now"));
    expect(await v.run(handle.result())).toBe("home");
    expect(log).toEqual(booked);
  });

  test("that is a node of a flow which is cancelled", async () => {
    const log: string[] = [];
    await travel({ log });
    const trips = flow("trips");
    trips.add("one", trip, { id: "x" });
    const run = await v.run(v.mill.submit(trips));
    await v.advance(1000);
    expect(log).toEqual(booked);
    await v.run(v.mill.flows.cancel(run.id));
    await v.advance(5000);
    expect(await v.run(v.mill.flows.get(run.id))).toMatchObject({ state: "cancelled" });
    expect(log).toEqual(undone);
  });
});

test("an undo that fails for good ends the run as undo-failed, after the other undos", async () => {
  const log: string[] = [];
  let left = 4;
  await travel(
    { log },
    () => "home",
    () => {
      if (left-- > 1) throw new Error("the hotel does not answer");
    },
  );
  const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
  await v.advance(1000);
  await v.run(v.mill.jobs.cancel(id));
  await v.advance(3_600_000);
  expect(await view(id)).toMatchObject({ state: "failed", reason: "undo-failed" });
  expect(log).toEqual([...booked, "no flight"]);
});

describe("a live run with steps to undo", () => {
  test("is deleted only by force", async () => {
    const log: string[] = [];
    await travel({ log });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.delete(id))).toBe("has-undo");
    expect(await v.run(v.mill.jobs.delete({ name: "trip" }))).toMatchObject({ "has-undo": 1, deleted: 0 });
    expect(await v.run(v.mill.jobs.delete(id, { force: true }))).toBe("deleted");
    expect(log).toEqual(booked);
  });
});

describe("a retry", () => {
  test("of a run that failed asks the failed step again, and no other", async () => {
    const ran: string[] = [];
    let isDown = true;
    await v.run(
      v.mill.work([
        handler(trip, async ({ step }) => {
          const a = await step.run("a", () => ran.push("a"));
          const b = step.run("b", () => {
            ran.push("b");
            if (isDown) throw new Unrecoverable("down");
          });
          await b.catch(async (error) => {
            await step.run("tell", () => ran.push("tell"));
            throw error;
          });
          await step.run("c", () => ran.push("c"));
          return a;
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(5000);
    expect(await view(handle.id)).toMatchObject({ state: "failed", reason: "step-failed" });
    expect(await v.run(v.mill.jobs.retry(handle.id))).toBe("retried");
    await v.advance(5000);
    expect((await view(handle.id)).state).toBe("failed");
    isDown = false;
    expect(await v.run(v.mill.jobs.retry(handle.id))).toBe("retried");
    expect(await v.run(handle.result())).toBe(1);
    expect(ran).toEqual(["a", "b", "tell", "b", "b", "c"]);
  });

  test("of a wait that timed out waits anew", async () => {
    await v.run(
      v.mill.work([handler(trip, async ({ step }) => (await step.waitFor("go", { timeout: "1h" })).value)]),
    );
    const handle = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(3_700_000);
    expect((await view(handle.id)).state).toBe("failed");
    await v.run(v.mill.jobs.retry(handle.id));
    await v.advance(1_800_000);
    expect((await view(handle.id)).state).toBe("suspended");
    await v.run(v.mill.signal(handle.id, "go", "now"));
    expect(await v.run(handle.result())).toBe("now");
  });

  test("begins anew from the start, after an undo, after a completion and with another input", async () => {
    const log: string[] = [];
    await travel({ log });
    const { id } = await v.run(v.mill.enqueue(trip, { id: "x" }));
    await v.advance(1000);
    await v.run(v.mill.jobs.cancel(id));
    await v.advance(2000);
    expect((await view(id)).state).toBe("cancelled");
    await v.run(v.mill.jobs.retry(id));
    await v.advance(2000);
    expect(log).toEqual([...undone, ...booked]);
    await v.run(v.mill.signal(id, "go", "now"));
    await v.advance(2000);
    expect((await view(id)).state).toBe("completed");
    await v.run(v.mill.jobs.retry(id));
    await v.advance(2000);
    expect(log).toEqual([...undone, ...booked, ...booked]);
    expect((await view(id)).state).toBe("suspended");
  });

  test("of a completed node of a flow begins anew", async () => {
    const ran: string[] = [];
    await v.run(
      v.mill.work([
        handler(trip, async ({ input, step }) => step.run("a", () => (ran.push(input.id), ran.length))),
      ]),
    );
    const trips = flow("trips");
    const one = trips.add("one", trip, { id: "one" });
    trips.add("two", trip, { id: "two" }, { after: one } as never);
    const run = await v.run(v.mill.submit(trips));
    await v.advance(5000);
    expect(ran).toEqual(["one", "two"]);
    await v.run(v.mill.flows.retry(run.id, { nodes: "all" }));
    await v.advance(5000);
    expect(ran).toEqual(["one", "two", "one", "two"]);
  });
});
