// Signals by business key: which wait a signal finds, what is kept, and what somebody who died has left.
import { expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { KeyedSignalAnswer, KeyedSignalOptions } from "../../src/index.ts";
import type { Store } from "../../src/store/store.ts";
import { millOn } from "../support/mill-on.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";

const v = useVirtualMill();

const charge = job("charge", {
  input: z.object({ key: z.string() }),
  signals: { paid: z.object({ ref: z.string() }) },
  durable: { version: 1 },
  retry: { attempts: 1 },
});
const waitForIt = handler(charge, async ({ input, step }) => {
  const { value } = await step.waitFor("paid", { key: input.key, timeout: "7d" });
  return value.ref;
});

const send = (ref: string, options: KeyedSignalOptions = {}, key = "p-1"): Promise<KeyedSignalAnswer> =>
  v.run(v.mill.signal({ key }, "paid", { ref }, options));
const enqueue = async (key = "p-1"): Promise<string> => (await v.run(v.mill.enqueue(charge, { key }))).id;
const work = async (made = waitForIt): Promise<void> => {
  await v.run(v.mill.work([made]));
  await v.advance(1000);
};
const resultOf = async (id: string): Promise<unknown> => {
  await v.advance(1000);
  const view = await v.run(v.mill.jobs.get(id));
  return view?.state === "completed" ? view.result : view?.state;
};
const docsOf = async (kind: string): Promise<number> =>
  (await v.run(v.store.readDocs({ kind, prefix: "", after: null, max: 100 }))).docs.length;

/** As if a week had gone by. */
const lookAtWaits = async (): Promise<void> => {
  const { docs } = await v.run(v.store.readDocs({ kind: "keyed-wait", prefix: "", after: null, max: 100 }));
  const puts = docs.map(
    ({ kind, id, body }) => ({ kind, id, body, guard: "any", due: { inMs: 0 } }) as const,
  );
  await v.run(v.store.putDocs(puts));
  await v.advance(10_000);
};

test("a wait takes signals of its key alone, and a signal to the run none of a key", async () => {
  const id = await enqueue();
  await work();
  expect(await send("other", {}, "p-2")).toEqual({ kind: "buffered", runs: 0 });
  await v.run(v.mill.signal(id, "paid", { ref: "to the run" }));
  expect(await resultOf(id)).toBe("suspended");
  expect(await send("mine")).toEqual({ kind: "delivered", runs: 1 });
  expect(await resultOf(id)).toBe("mine");
});

test("what no run waits for is kept for the first one, for a day, and a sender's key as long", async () => {
  await work();
  expect(await send("early", { key: "e-1" })).toEqual({ kind: "buffered", runs: 0 });
  await send("second");
  // Both begin to wait at once: one of them takes it, and what came after it.
  const both = [await enqueue(), await enqueue()];
  const results = await Promise.all(both.map(resultOf));
  expect(new Set(results)).toEqual(new Set(["early", "suspended"]));
  const second = both[results.indexOf("suspended")] as string;
  expect(await send("again", { key: "e-1" })).toEqual({ kind: "duplicate", runs: 0 });
  await send("forgotten", {}, "p-2");
  await v.advance(25 * 3_600_000);
  expect(await resultOf(await enqueue("p-2"))).toBe("suspended");
  expect(await send("new", { key: "e-1" })).toEqual({ kind: "delivered", runs: 1 });
  expect(await resultOf(second)).toBe("new");
});

test("`keep` says how long", async () => {
  await work();
  await send("short", { keep: "1m" });
  await v.advance(61_000);
  expect(await resultOf(await enqueue())).toBe("suspended");
});

test("a wait whose time is over, or that a race has closed, gets nothing any more", async () => {
  await work(
    handler(charge, async ({ step }) => {
      const late = await step.waitFor("paid", { key: "p-1", timeout: "1m", onTimeout: "return" });
      const { winner } = await step.race({
        paid: () => step.waitFor("paid", { key: "p-2" }),
        time: () => step.sleep("a while", "1m"),
      });
      await step.sleep("long", "1d");
      return `${late.kind} ${winner}`;
    }),
  );
  const id = await enqueue();
  await v.advance(3 * 60_000);
  expect(await docsOf("keyed-wait")).toBe(0);
  expect(await send("late")).toEqual({ kind: "buffered", runs: 0 });
  expect(await send("late", {}, "p-2")).toEqual({ kind: "buffered", runs: 0 });
  await v.advance(25 * 3_600_000);
  expect(await resultOf(id)).toBe("timed-out time");
});

test("a wait of a run that was cancelled takes nothing, and is gone after a week at the latest", async () => {
  const [one, other] = [await enqueue(), await enqueue("p-2")];
  await work();
  for (const id of [one, other]) await v.run(v.mill.jobs.cancel(id));
  expect(await docsOf("keyed-wait")).toBe(2);
  expect(await send("late")).toEqual({ kind: "buffered", runs: 0 });
  expect(await docsOf("keyed-wait")).toBe(1);
  await lookAtWaits();
  expect(await docsOf("keyed-wait")).toBe(0);
});

test("a run that waits for longer than a week still gets its signal", async () => {
  await work(handler(charge, async ({ step }) => (await step.waitFor("paid", { key: "p-1" })).value.ref));
  const id = await enqueue();
  await lookAtWaits();
  expect(await send("at last")).toEqual({ kind: "delivered", runs: 1 });
  expect(await resultOf(id)).toBe("at last");
});

test("a run that a round begins anew for waits in its own name", async () => {
  let rounds = 0;
  await work(
    handler(charge, async ({ input, step }) => {
      const { value } = await step.waitFor("paid", { key: "p-1" });
      if (value.ref === "again") {
        rounds += 1;
        step.continueWith(input);
      }
      return value.ref;
    }),
  );
  const id = await enqueue();
  await v.advance(1000);
  for (const ref of ["again", "again", "end"]) {
    expect(await send(ref)).toEqual({ kind: "delivered", runs: 1 });
    await v.advance(1000);
  }
  expect([await resultOf(id), rounds]).toEqual(["end", 2]);
});

test("code that waits at another key than before diverges", async () => {
  let key = "p-1";
  await work(
    handler(charge, async ({ step }) => {
      await step.waitFor("paid", { key });
    }),
  );
  const id = await enqueue();
  await v.advance(1000);
  key = "p-2";
  await send("go");
  await v.advance(1000);
  const view = await v.run(v.mill.jobs.get(id));
  expect(view).toMatchObject({ state: "failed", reason: "diverged" });
  expect(JSON.stringify(view?.attempts)).toContain('at the key \\"p-1');
});

/** The store of a process that dies at one call, before or after it took effect: nothing of it goes on. */
function dyingAt(name: "putDocs" | "readDocs" | "changeIf", at: number, isAfter: boolean): Store {
  let calls = 0;
  let isDead = false;
  const never = (): Promise<never> => new Promise(() => undefined);
  const methods = (["submit", "putDocs", "readDocs", "changeIf"] as const).map((method) => {
    const call = v.store[method] as (request: never) => Promise<unknown>;
    const made = async (request: never): Promise<unknown> => {
      if (isDead) return never();
      if (method !== name || ++calls !== at) return call(request);
      isDead = true;
      if (isAfter) await call(request);
      return never();
    };
    return [method, made] as const;
  });
  return { ...v.store, ...Object.fromEntries(methods), close: async () => undefined } as Store;
}

test.each([
  ["putDocs", 1, false],
  ["putDocs", 1, true],
  ["putDocs", 2, false],
  ["putDocs", 2, true],
  ["readDocs", 1, false],
  ["changeIf", 1, false],
  ["changeIf", 1, true],
] as const)(
  "a sender that dies at %s %d, after it: %s, leaves the rest to the duty",
  async (name, at, isAfter) => {
    const id = await enqueue();
    await work();
    const sender = millOn(dyingAt(name, at, isAfter), { log: false }, v.platform);
    await v.run(sender.signal({ key: "p-1" }, "paid", { ref: "left" }).catch(() => null));
    await v.advance(10_000);
    expect(await resultOf(id)).toBe("left");
    // It is nobody else's.
    expect(await resultOf(await enqueue())).toBe("suspended");
  },
);

test("wrong calls are refused with a code before anything is written", async () => {
  await work();
  const refused = async (call: () => Promise<unknown>, code: string): Promise<void> => {
    await expect(v.run(call())).rejects.toMatchObject({ code });
  };
  await refused(() => v.mill.signal({ key: "" }, "paid", {}), "invalid-name");
  await refused(() => v.mill.signal({ key: 7 } as never, "paid", {}), "invalid-name");
  await refused(() => v.mill.signal({ key: "a", id: "b" } as never, "paid", {}), "invalid-option");
  await refused(() => v.mill.signal({ key: "a" }, "", {}), "invalid-name");
  await refused(() => v.mill.signal({ key: "a" }, "paid", { ref: 7 }), "invalid-input");
  await refused(
    () => v.mill.signal({ key: "a" }, "paid", { ref: "x" }, { keep: "soon" as never }),
    "invalid-duration",
  );
  const large = { ref: "x".repeat(2 ** 21) };
  await refused(() => v.mill.signal({ key: "a" }, "paid", large), "payload-too-large");
  expect(await docsOf("keyed-signal")).toBe(0);
});
