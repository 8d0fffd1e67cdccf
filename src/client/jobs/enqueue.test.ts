import { describe, expect, test } from "vitest";
import { z } from "zod";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { routeAllTo, routeByPrefix } from "../../engine/submit/router.ts";
import type { Router } from "../../engine/submit/router.ts";
import { MillraceError } from "../../model/error.ts";
import { handler } from "../../worker/handler.ts";

const v = useVirtualMill();

const plain = job<{ n: number }>("plain");
const coded = (code: string) => expect.objectContaining({ code });

describe("enqueue", () => {
  test("many concurrent enqueues coalesce into few store calls", async () => {
    let calls = 0;
    const submit = v.store.submit.bind(v.store);
    v.store.submit = (units) => (calls++, submit(units));
    const handles = await v.run(
      Promise.all(Array.from({ length: 2500 }, (_, n) => v.mill.enqueue(plain, { n }))),
    );
    expect(new Set(handles.map(({ id }) => id)).size).toBe(2500);
    expect(calls).toBeLessThanOrEqual(4);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 2500 } });
  });

  test("a delayed job becomes ready when it is due and not before", async () => {
    const starts: number[] = [];
    await v.run(v.mill.work([handler(plain, async () => void starts.push(v.platform.time.now))]));
    const from = v.platform.time.now;
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "10m" }));
    await v.run(v.mill.enqueue(plain, { n: 2 }, { runAt: new Date(from + 60_000) }));
    await v.run(handle.result());
    expect(starts.map((at) => at - from)).toEqual([expect.any(Number), expect.any(Number)]);
    expect(starts[0]! - from).toBeGreaterThanOrEqual(60_000);
    expect(starts[0]! - from).toBeLessThan(60_050);
    expect(starts[1]! - from).toBeGreaterThanOrEqual(600_000);
    expect(starts[1]! - from).toBeLessThan(600_050);
  });

  test("order is priority, then due time, then submission", async () => {
    const order: number[] = [];
    await v.run(
      v.mill.enqueueMany([
        plain.with({ n: 1 }),
        plain.with({ n: 2 }, { priority: "low" }),
        plain.with({ n: 3 }),
      ]),
    );
    await v.run(v.mill.enqueue(plain, { n: 4 }, { priority: "high" }));
    await v.run(
      v.mill.work([handler(plain, async ({ input }) => void order.push(input.n))], { concurrency: 1 }),
    );
    await v.advance(1000);
    expect(order).toEqual([4, 1, 3, 2]);
  });

  test("low priority does not starve: one level is worth half a minute of waiting", async () => {
    await v.run(v.mill.enqueue(plain, { n: 1 }, { priority: 1 }));
    await v.advance(31_000);
    await v.run(v.mill.enqueue(plain, { n: 2 }, { priority: 0 }));
    const order: number[] = [];
    await v.run(
      v.mill.work([handler(plain, async ({ input }) => void order.push(input.n))], { concurrency: 1 }),
    );
    await v.advance(1000);
    expect(order).toEqual([1, 2]);
  });

  test("enqueueMany is all or nothing, also when one of many is refused", async () => {
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "mine" }));
    const many = [plain.with({ n: 2 }), plain.with({ n: 3 }, { id: "mine" })];
    await expect(v.run(v.mill.enqueueMany(many))).rejects.toThrow(coded("id-conflict"));
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 1 } });
    expect(await v.run(v.mill.enqueueMany([]))).toEqual([]);
  });

  test("a caller-given id is idempotent, and refused with other input", async () => {
    const first = await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "mine" }));
    const again = await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "mine" }));
    expect([first.created, again.created, again.id]).toEqual([true, false, "mine"]);
    await expect(v.run(v.mill.enqueue(plain, { n: 2 }, { id: "mine" }))).rejects.toThrow(
      coded("id-conflict"),
    );
    await v.run(v.mill.work([handler(plain, async () => 1)]));
    await v.run(first.result());
    expect((await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "mine" }))).created).toBe(false);
  });

  test("an enqueue whose reply was lost is repeated with the same id and makes one job", async () => {
    const submit = v.store.submit.bind(v.store);
    let losses = 0;
    v.store.submit = async (units) => {
      const answers = await submit(units);
      if (losses++ < 2) throw new MillraceError("outcome-unknown", "the reply was lost");
      return answers;
    };
    await v.run(v.mill.enqueue(plain, { n: 1 }));
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 1 } });
  });

  test("a store that stays away is reported after a while, with the outcome unknown if a try may have happened", async () => {
    v.store.submit = () => Promise.reject(new MillraceError("store-unavailable", "away"));
    await expect(v.run(v.mill.enqueue(plain, { n: 1 }))).rejects.toMatchObject({
      code: "store-unavailable",
      outcome: "did-not-happen",
    });
    let tries = 0;
    v.store.submit = () =>
      Promise.reject(new MillraceError(tries++ === 0 ? "outcome-unknown" : "store-unavailable", "away"));
    await expect(v.run(v.mill.enqueue(plain, { n: 1 }))).rejects.toMatchObject({ outcome: "unknown" });
  });
});

describe("bad input is refused before any write", () => {
  const bad: readonly (readonly [string, string, () => Promise<unknown>])[] = [
    ["an unknown option", "invalid-option", () => v.mill.enqueue(plain, { n: 1 }, { dealy: "1s" } as never)],
    ["a negative delay", "invalid-duration", () => v.mill.enqueue(plain, { n: 1 }, { delay: -1 })],
    ["an absurd delay", "invalid-duration", () => v.mill.enqueue(plain, { n: 1 }, { delay: 1e15 })],
    [
      "a delay that is not a duration",
      "invalid-duration",
      () => v.mill.enqueue(plain, { n: 1 }, { delay: "soon" as never }),
    ],
    ["a timeout of 0", "invalid-duration", () => v.mill.enqueue(plain, { n: 1 }, { timeout: 0 })],
    [
      "delay and runAt together",
      "invalid-option",
      () => v.mill.enqueue(plain, { n: 1 }, { delay: 1, runAt: 1 }),
    ],
    ["a priority out of range", "invalid-option", () => v.mill.enqueue(plain, { n: 1 }, { priority: 5000 })],
    ["zero attempts", "invalid-option", () => v.mill.enqueue(plain, { n: 1 }, { retry: { attempts: 0 } })],
    ["an empty id", "invalid-name", () => v.mill.enqueue(plain, { n: 1 }, { id: "" })],
    [
      "a tag with a control character",
      "invalid-name",
      () => v.mill.enqueue(plain, { n: 1 }, { tags: ["a\u0007b"] }),
    ],
    [
      "a tag that is too long",
      "invalid-name",
      () => v.mill.enqueue(plain, { n: 1 }, { tags: ["ä".repeat(128)] }),
    ],
    [
      "a payload that is too large",
      "payload-too-large",
      () => v.mill.enqueue(plain, { n: 1, x: "y".repeat(2_000_000) } as never),
    ],
    [
      "a payload with a function",
      "payload-not-encodable",
      () => v.mill.enqueue(plain, { n: () => 1 } as never),
    ],
    ["a group key that is not a name", "invalid-name", () => v.mill.enqueue(plain, { n: 1 }, { group: "" })],
    [
      "a group key function that throws",
      "invalid-option",
      () => v.mill.enqueue(plain, { n: 1 }, { group: () => (undefined as never as { key: string }).key }),
    ],
    ["an unknown order", "invalid-option", () => v.mill.enqueue(plain, { n: 1 }, { order: "up" as never })],
    [
      "a budget by its name",
      "invalid-option",
      () => v.mill.enqueue(plain, { n: 1 }, { budgets: ["tokens" as never] }),
    ],
    [
      "a worker's capabilities instead of a job's requires",
      "invalid-option",
      () => v.mill.enqueue(plain, { n: 1 }, { capabilities: ["gpu"] } as never),
    ],
  ];
  test.each(bad)("%s", async (_what, code, act) => {
    await expect(v.run(act())).rejects.toThrow(coded(code));
    expect(await v.run(v.mill.jobs.counts())).toEqual({});
  });

  test("an input that does not match its schema", async () => {
    const typed = job("typed", { input: z.object({ userId: z.string() }) });
    await expect(v.run(v.mill.enqueue(typed, { userId: 7 } as never))).rejects.toThrow(/userId/);
    expect(await v.run(v.mill.jobs.counts())).toEqual({});
  });

  test("a definition with a bad name, option or redaction path", () => {
    expect(() => job("")).toThrow(coded("invalid-name"));
    expect(() => job("x".repeat(256))).toThrow(coded("invalid-name"));
    expect(() => job("a", { quue: "b" } as never)).toThrow(coded("invalid-option"));
    expect(() => job("a", { input: {} as never })).toThrow(coded("invalid-option"));
    expect(() => job("a", { redact: ["items[0]"] })).toThrow(coded("invalid-option"));
    expect(() => job("a", { group: { key: "g", concurrency: 0 } })).toThrow(coded("invalid-option"));
  });

  test("any allowed name works, hostile ones included", async () => {
    for (const name of [
      "__proto__",
      "constructor",
      `it's "quoted" {a}:b`,
      "naïve ☃ 𝒳",
      "-- drop table",
      "a".repeat(255),
    ]) {
      const odd = job<{ n: number }, string>(name, { queue: name });
      const worker = await v.run(v.mill.work([handler(odd, async () => name)]));
      const handle = await v.run(v.mill.enqueue(odd, { n: 1 }, { tags: [name], unique: name }));
      expect(await v.run(handle.result())).toBe(name);
      expect((await v.run(v.mill.jobs.list({ tag: name, queue: name, name }))).jobs).toHaveLength(1);
      expect((await v.run(v.mill.jobs.counts()))[name]).toEqual({ completed: 1 });
      await v.run(worker.stop());
    }
  });
});

describe("settings of open", () => {
  test("a queue comes from the enqueue, else from the definition, else from the router", async () => {
    const queueOf = async (
      router: Router,
      name: string,
      { declared, asked }: { declared?: string; asked?: string } = {},
    ): Promise<string> => {
      const w = await openVirtualMill({ router });
      const definition = job(name, declared === undefined ? {} : { queue: declared });
      const handle = await w.run(w.mill.enqueue(definition, {}, asked === undefined ? {} : { queue: asked }));
      const view = await w.run(w.mill.jobs.get(handle.id));
      await w.close();
      return view!.queue;
    };
    expect(await queueOf(routeAllTo("one"), "x")).toBe("one");
    const byPrefix = routeByPrefix({ "mail.": "mail", "mail.bulk.": "bulk" });
    expect(await queueOf(byPrefix, "mail.bulk.news")).toBe("bulk");
    expect(await queueOf(byPrefix, "mail.welcome")).toBe("mail");
    expect(await queueOf(byPrefix, "other")).toBe("default");
    expect(await queueOf(routeByPrefix({}, "rest"), "other")).toBe("rest");
    expect(await queueOf(byPrefix, "mail.welcome", { declared: "own" })).toBe("own");
    expect(await queueOf(byPrefix, "mail.welcome", { declared: "own", asked: "now" })).toBe("now");
  });

  test("payloads are encrypted with the current key and read with every key of the ring", async () => {
    const keys = { k1: "11".repeat(32), k2: "22".repeat(32) };
    const w = await openVirtualMill({ encryption: { current: "k2", keys }, compression: {} });
    const handle = await w.run(w.mill.enqueue(plain, { n: 1, secret: "hush".repeat(1000) } as never));
    const [record] = await w.run(w.store.readJobs([handle.id]));
    expect(record!.input).toMatch(/^!/);
    expect(record!.input).not.toContain("hush");
    const seen = Promise.withResolvers<unknown>();
    await w.run(w.mill.work([handler(plain, async ({ input }) => seen.resolve(input))]));
    expect(await w.run(seen.promise)).toMatchObject({ n: 1 });
    await w.close();
  });

  test("redacted fields are never shown, but the handler sees them", async () => {
    const pay = job<{ card: { number: string } }, { token: string }>("pay", {
      redact: ["card.number", "token"],
    });
    let seen = "";
    await v.run(v.mill.work([handler(pay, async ({ input }) => ({ token: (seen = input.card.number) }))]));
    const handle = await v.run(v.mill.enqueue(pay, { card: { number: "4111" } }));
    expect(await v.run(handle.result())).toEqual({ token: "4111" });
    expect(seen).toBe("4111");
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect(JSON.stringify(view)).not.toContain("4111");
  });

  test("defaults of the code hold if neither enqueue nor definition says otherwise", async () => {
    const w = await openVirtualMill({ defaults: { retry: { attempts: 1 }, priority: "low" } });
    const once = job("once");
    const twice = job("twice", { retry: { attempts: 2, backoff: 0 } });
    await w.run(
      w.mill.work([
        handler(once, () => Promise.reject(new Error("x"))),
        handler(twice, () => Promise.reject(new Error("x"))),
      ]),
    );
    const handles = [await w.run(w.mill.enqueue(once, {})), await w.run(w.mill.enqueue(twice, {}))];
    for (const handle of handles) await expect(w.run(handle.result())).rejects.toThrow(coded("job-failed"));
    expect(await w.run(w.mill.jobs.get(handles[0]!.id))).toMatchObject({ attempt: 1 });
    expect(await w.run(w.mill.jobs.get(handles[1]!.id))).toMatchObject({ attempt: 2 });
    await w.close();
  });

  test("middleware around an enqueue can change it or refuse it", async () => {
    const w = await openVirtualMill({
      middleware: [
        async (submission, next) => {
          if ((submission.input as { n: number }).n < 0) return;
          await next({ ...submission, options: { ...submission.options, headers: { by: "middleware" } } });
        },
      ],
    });
    const handle = await w.run(w.mill.enqueue(plain, { n: 1 }));
    expect(await w.run(w.mill.jobs.get(handle.id))).toMatchObject({ headers: { by: "middleware" } });
    await expect(w.run(w.mill.enqueue(plain, { n: -1 }))).rejects.toThrow(coded("aborted"));
    await w.close();
  });

  test("an unknown option of open is refused", async () => {
    await expect(openVirtualMill({ durabilty: "strict" } as never)).rejects.toThrow(coded("invalid-option"));
    await expect(openVirtualMill({ ageing: -1 })).rejects.toThrow(coded("invalid-duration"));
  });

  test("after the close everything is refused, and closing twice is one close", async () => {
    const w = await openVirtualMill();
    await w.close();
    await w.close();
    await expect(w.mill.enqueue(plain, { n: 1 })).rejects.toThrow(coded("closed"));
  });
});

describe("waiting for a result", () => {
  test("ends with wait-timeout while the job goes on, and with aborted by a signal", async () => {
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result({ timeout: "1s" }))).rejects.toThrow(coded("wait-timeout"));
    const controller = new AbortController();
    const waiting = handle.result({ signal: controller.signal });
    controller.abort();
    await expect(v.run(waiting)).rejects.toThrow(coded("aborted"));
    expect(await v.run(handle.peek())).toEqual({ status: "pending" });
  });

  test("is answered by a slow read if every hint is lost", async () => {
    const w = await openVirtualMill();
    const watch = w.store.watch.bind(w.store);
    w.store.watch = (listener) => watch((hint) => void (hint.kind === "finished" || listener(hint)));
    await w.run(w.mill.work([handler(plain, async () => 5)]));
    const handle = await w.run(w.mill.enqueue(plain, { n: 1 }, { delay: "3s" }));
    expect(await w.run(handle.result())).toBe(5);
    await w.close();
  });

  test("a job that does not exist is result-expired", async () => {
    await expect(v.run(v.mill.handle("nobody").result())).rejects.toThrow(coded("result-expired"));
    expect(await v.run(v.mill.handle("nobody").peek())).toEqual({ status: "expired" });
  });
});
