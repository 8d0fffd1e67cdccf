import { describe, expect, test } from "vitest";
import { deferred } from "../../test/support/virtual/virtual-mill.ts";
import { millOn } from "../../test/support/mill-on.ts";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { limit } from "../engine/limits/limit-definition.ts";
import type { EventName, MillraceEvent } from "../model/events/event.ts";
import { handler } from "../worker/handler.ts";
import type { Worker } from "../worker/worker.ts";
import type { EventStream } from "./open-events.ts";
import type { Millrace } from "./millrace.ts";

const plain = job<{ n: number }>("plain", { retry: { attempts: 2, backoff: 1000 } });
const coded = (code: string) => expect.objectContaining({ code });

/** Takes N events, then leaves the stream. */
async function take<Kind extends EventName>(
  stream: EventStream<Kind>,
  count: number,
): Promise<MillraceEvent<Kind>[]> {
  const events: MillraceEvent<Kind>[] = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length === count) break;
  }
  return events;
}

const short = ({ kind, jobId, attempt }: MillraceEvent): string => `${kind} ${jobId} ${attempt}`;

describe.each([1, 3])("with %i partitions", (partitions) => {
  const v = useVirtualMill({}, partitions);
  const many = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) =>
      plain.with({ n: from + index }, { id: `job-${from + index}` }),
    );

  test("events come in the order of each job's life, with the fields of their kinds", async () => {
    const stream = v.mill.events({ queue: "default" });
    await v.run(
      v.mill.work([
        handler(plain, async ({ attempt }) => {
          if (attempt === 1) throw new Error("first");
        }),
      ]),
    );
    const { id } = await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "job-1", delay: 5000 }));
    const events = await v.run(take(stream, 9));
    expect(events.map(({ kind }) => kind)).toEqual([
      ...["submitted", "ready", "claimed", "started", "retry-scheduled"],
      ...["ready", "claimed", "started", "completed"],
    ]);
    const [submitted, , , , retry] = events;
    const times = { waitedMs: expect.any(Number), ranMs: expect.any(Number) };
    expect(retry).toMatchObject({ ...times, error: { name: "Error", message: "first" } });
    expect(events.at(-1)).toMatchObject(times);
    expect(submitted).toMatchObject({
      jobId: id,
      queue: "default",
      name: "plain",
      state: "scheduled",
      attempt: 0,
    });
    expect(retry).toMatchObject({ attempt: 1, nextAttempt: 2, state: "scheduled" });
    const { delayMs, dueAt, at } = retry as MillraceEvent<"retry-scheduled">;
    expect(delayMs).toBe(dueAt!.getTime() - at.getTime());
    expect(delayMs).toBeGreaterThan(0);
  });

  test("from the cursor of any event, all later events come, without a gap or a duplicate", async () => {
    await v.run(v.mill.work([handler(plain, async () => undefined)]));
    await v.run(Promise.all([1, 2, 3].map((n) => v.mill.enqueueMany(many(n * 10, n * 10 + 4).slice(0, 1)))));
    for (const submission of many(50, 60)) await v.run(v.mill.enqueueMany([submission]));
    await v.advance(5000);
    const all = await v.run(take(v.mill.events({ from: "start" }), 52));
    expect(new Set(all.map(short)).size).toBe(52);
    for (const [index, { cursor }] of all.slice(0, -1).entries()) {
      const rest = await v.run(take(v.mill.events({ from: cursor }), all.length - index - 1));
      expect(rest.map(short).sort()).toEqual(
        all
          .slice(index + 1)
          .map(short)
          .sort(),
      );
    }
  });

  test("a cursor inside the events of one call goes on after that event", async () => {
    if (partitions > 1) return;
    await v.run(v.mill.enqueueMany(many(0, 5)));
    const all = await v.run(take(v.mill.events({ from: "start" }), 5));
    const rest = await v.run(take(v.mill.events({ from: all[1]!.cursor }), 3));
    expect(rest.map(({ jobId }) => jobId)).toEqual(["job-2", "job-3", "job-4"]);
  });

  test("filters pass the events they name and no others", async () => {
    const other = job("other", { queue: "side" });
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "a", tags: ["red"] }));
    await v.run(v.mill.enqueue(other, {}, { id: "b" }));
    await v.run(v.mill.enqueue(plain, { n: 2 }, { id: "c" }));
    await v.run(v.mill.work([handler(plain, async () => undefined), handler(other, async () => undefined)]));
    await v.run(Promise.all(["a", "b", "c"].map((id) => v.mill.handle(id).result())));
    const ids = async (options: object, count: number): Promise<string[]> =>
      (await v.run(take(v.mill.events({ from: "start", ...options }), count))).map(
        ({ kind, jobId }) => `${kind} ${jobId}`,
      );
    expect(await ids({ queue: "side" }, 4)).toEqual([
      ...["submitted b", "claimed b", "started b", "completed b"],
    ]);
    expect(await ids({ name: "other", kinds: "completed" }, 1)).toEqual(["completed b"]);
    expect(await ids({ job: "c", kinds: ["submitted", "completed"] }, 2)).toEqual([
      "submitted c",
      "completed c",
    ]);
    expect(await ids({ tag: "red" }, 4)).toEqual([
      ...["submitted a", "claimed a", "started a", "completed a"],
    ]);
  });

  test("a cursor into a pruned part of the feed is refused as such, and start reads what is kept", async () => {
    const at = (n: number): Promise<unknown> => v.run(v.mill.enqueue(plain, { n }, { id: `{one}-${n}` }));
    await at(0);
    const [first] = await v.run(take(v.mill.events({ from: "start" }), 1));
    for (let n = 1; n < 4; n++) await at(n);
    await v.advance(1000);
    await v.run(v.store.prune({ what: "feed", olderThanMs: 0, max: 2 }));
    const stale = v.mill.events({ from: first!.cursor });
    await expect(v.run(stale.next())).rejects.toThrow(coded("cursor-expired"));
    expect(await v.run(stale.next())).toEqual({ done: true, value: undefined });
    const [kept] = await v.run(take(v.mill.events({ from: "start" }), 1));
    expect(kept).toMatchObject({ jobId: "{one}-2" });
  });

  test("a listener that takes nothing holds up no other and misses nothing", async () => {
    const slow = v.mill.events({ kinds: "submitted" });
    await v.run(v.mill.enqueue(plain, { n: 0 }, { id: "first" }));
    expect(await v.run(slow.next())).toMatchObject({ value: { jobId: "first" } });
    const quick = v.mill.events({ kinds: "submitted" });
    const waiting = quick.next();
    const thousand = Array.from({ length: 1000 }, (_, n) => plain.with({ n }));
    for (let call = 0; call < 30; call++) await v.run(v.mill.enqueueMany(thousand));
    expect(await v.run(waiting)).toMatchObject({ value: { kind: "submitted" } });
    const events = [...(await v.run(take(slow, 30_000)))];
    expect(new Set(events.map(({ jobId }) => jobId)).size).toBe(30_000);
    await quick.return!();
  });

  test("on calls its listener until it is ended; a listener that throws affects no other", async () => {
    await v.run(v.mill.enqueue(plain, { n: 0 }, { id: "before" }));
    const heard: string[] = [];
    const off = v.mill.on("submitted", ({ jobId }) => {
      heard.push(jobId);
      throw new Error("no");
    });
    v.mill.on("submitted", async ({ jobId }) => {
      heard.push(`${jobId} too`);
      throw new Error("no");
    });
    await v.advance(10);
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "one" }));
    await v.run(v.mill.enqueue(plain, { n: 2 }, { id: "two" }));
    await v.advance(1000);
    expect(heard.sort()).toEqual(["one", "one too", "two", "two too"]);
    off();
    await v.run(v.mill.enqueue(plain, { n: 3 }, { id: "three" }));
    await v.advance(1000);
    expect(heard.filter((id) => id.startsWith("three"))).toEqual(["three too"]);
  });

  test("in a flood a listener takes no hints and misses nothing, and hints wake it again afterwards", async () => {
    const watch = v.store.watch.bind(v.store);
    let watches = 0;
    v.store.watch = (listener) => {
      const unwatch = watch(listener);
      watches += 1;
      return () => {
        watches -= 1;
        unwatch();
      };
    };
    let heard = 0;
    const off = v.mill.on("submitted", () => (heard += 1));
    await v.advance(100);
    expect(watches).toBe(1);
    let isLetGo = false;
    const flood = Array.from({ length: 3000 }, (_, n) => plain.with({ n }));
    for (let round = 0; round < 4; round++) {
      await v.run(v.mill.enqueueMany(flood));
      await v.advance(20);
      isLetGo ||= watches === 0;
    }
    expect(isLetGo).toBe(true);
    await v.advance(2000);
    expect([heard, watches]).toEqual([12_000, 1]);
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "after the flood" }));
    await v.advance(10);
    expect(heard).toBe(12_001);
    off();
    v.store.watch = watch;
  });

  test("a listener hears only what its conditions name", async () => {
    const other = job<{ n: number }>("other", { queue: "audio" });
    const heard: Record<string, string[]> = { queue: [], name: [], tag: [], both: [] };
    const into = (list: string) => (event: MillraceEvent) => void heard[list]?.push(event.jobId ?? "");
    const off = v.mill.on("submitted", into("queue"), { queue: "audio" });
    v.mill.on("submitted", into("name"), { name: "plain" });
    v.mill.on("submitted", into("tag"), { tag: "t" });
    v.mill.on("submitted", into("both"), { queue: "audio", tag: "t" });
    for (const tags of [[], ["t"]])
      for (const each of [plain, other])
        await v.run(v.mill.enqueue(each, { n: 1 }, { id: each.name[0] + tags.join(""), tags }));
    await v.advance(2000);
    const sorted = Object.fromEntries(Object.entries(heard).map(([list, ids]) => [list, ids.toSorted()]));
    expect(sorted).toEqual({ queue: ["o", "ot"], name: ["p", "pt"], tag: ["ot", "pt"], both: ["ot"] });
    off();
    await v.run(v.mill.enqueue(other, { n: 5 }, { id: "late" }));
    await v.advance(2000);
    expect(heard["queue"]).not.toContain("late");
  });

  test("a listener goes on if the feed no longer has its position", async () => {
    if (partitions > 1) return;
    const heard: string[] = [];
    v.mill.on("submitted", ({ jobId }) => heard.push(jobId));
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "one" }));
    await v.advance(1000);
    const whole = v.store.readFeed.bind(v.store);
    // The store lost its writes: the feed now ends before the listener's position.
    v.store.readFeed = () => Promise.resolve({ records: [], cursor: 0 });
    await v.advance(10_000);
    v.store.readFeed = whole;
    await v.advance(10_000);
    await v.run(v.mill.enqueue(plain, { n: 2 }, { id: "two" }));
    await v.advance(5000);
    // The listener went on at the end of the shorter feed, so it gets the first event once more.
    expect(heard).toEqual(["one", "one", "two"]);
  });

  test("a stream ends with its signal and with Millrace", async () => {
    const ended = new AbortController();
    const [bySignal, byClose] = [v.mill.events({ signal: ended.signal }), v.mill.events()];
    const [one, other] = [bySignal.next(), byClose.next()];
    await v.advance(100);
    ended.abort();
    expect(await v.run(one)).toEqual({ done: true, value: undefined });
    await v.close();
    expect(await other).toEqual({ done: true, value: undefined });
    expect(() => v.mill.events()).toThrow(coded("closed"));
  });

  test("permits that code takes emit no events", async () => {
    const stream = v.mill.events();
    const permit = await v.run(v.mill.limits.acquire(limit("api", { concurrency: 1 })));
    await v.run(permit.release());
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "last" }));
    expect(await v.run(take(stream, 1))).toMatchObject([{ kind: "submitted", jobId: "last" }]);
  });
});

describe("events that need more than the record of a change", () => {
  const v = useVirtualMill();

  test("a job that waited in its worker has started before it ends, or when its start is reported", async () => {
    const stream = v.mill.events({ kinds: ["claimed", "started", "completed"] });
    const release = deferred<number>();
    const slow = job<{ n: number }, number>("slow");
    const worker = handler(slow, ({ input }) => (input.n === 3 ? release.promise : 1));
    await v.run(v.mill.enqueueMany([1, 2, 3].map((n) => slow.with({ n }, { id: `job-${n}` }))));
    await v.run(v.mill.work([worker], { concurrency: 1 }));
    const events = (await v.run(take(stream, 8))).map(({ kind, jobId }) => `${kind} ${jobId}`);
    for (const n of [1, 2, 3]) {
      const life = events.filter((text) => text.endsWith(`job-${n}`)).map((text) => text.split(" ")[0]);
      expect(life).toEqual(n === 3 ? ["claimed", "started"] : ["claimed", "started", "completed"]);
    }
    release.resolve(3);
    const [last] = await v.run(take(v.mill.events({ from: "start", job: "job-3", kinds: "completed" }), 1));
    expect(last).toMatchObject({ waitedMs: expect.any(Number), ranMs: expect.any(Number) });
  });

  test("progress comes decoded, without what its definition hides", async () => {
    const shy = job<{ n: number }>("shy", { redact: ["data.secret"] });
    const stream = v.mill.events({ kinds: "progress" });
    await v.run(v.mill.enqueue(shy, { n: 1 }));
    await v.run(
      v.mill.work([handler(shy, async ({ progress }) => progress(50, "half", { done: 5, secret: "x" }))]),
    );
    expect(await v.run(take(stream, 1))).toMatchObject([
      {
        kind: "progress",
        state: "running",
        progress: { value: 50, data: { done: 5, secret: "[redacted]" } },
      },
    ]);
  });

  test("the event of a failed job has its error, without a stack", async () => {
    const bad = job("bad", { retry: { attempts: 1 } });
    const stream = v.mill.events({ kinds: "failed" });
    await v.run(v.mill.enqueue(bad, {}));
    const broken = Object.assign(new TypeError("broken"), { code: "E1" });
    await v.run(v.mill.work([handler(bad, () => Promise.reject(broken))]));
    const [event] = await v.run(take(stream, 1));
    expect(event).toMatchObject({ reason: "retries-exhausted", ranMs: expect.any(Number) });
    expect(event?.error).toEqual({ name: "TypeError", message: "broken", code: "E1" });
  });

  test("a queue that ran empty emits that once, whichever worker had its last jobs", async () => {
    const others = millOn(v.store, {}, v.platform);
    const run = (mill: Millrace): Promise<Worker> =>
      v.run(mill.work([handler(plain, async () => undefined)], { concurrency: 1 }));
    await run(v.mill);
    const worker = await run(others);
    for (const round of [1, 2]) {
      const jobs = Array.from({ length: 6 }, (_, n) => plain.with({ n }));
      const handles = await v.run(v.mill.enqueueMany(jobs));
      await v.run(Promise.all(handles.map((handle) => handle.result())));
      await v.advance(10_000);
      const { records } = await v.run(v.store.readFeed({ after: 0, max: 1000 }));
      const emitted = records.flatMap(({ events }) => events.filter(({ kind }) => kind === "queue-empty"));
      expect(emitted.map(({ id }) => id)).toEqual(Array.from({ length: round }, () => "default"));
    }
    const [empty] = await v.run(take(v.mill.events({ from: "start", kinds: "queue-empty" }), 1));
    expect(empty).toMatchObject({ queue: "default", jobId: null });
    await v.run(worker.stop());
  });

  test("queues and workers emit events of their own, in order with those of jobs", async () => {
    const stream = v.mill.events();
    await v.run(v.mill.queues.pause("default"));
    const worker = await v.run(v.mill.work([handler(plain, async () => undefined)]));
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "one" }));
    await v.run(worker.stop());
    const events = await v.run(take(stream, 4));
    expect(events.map(({ kind }) => kind)).toEqual([
      ...["queue-changed", "worker-joined", "submitted", "worker-left"],
    ]);
    expect(events[0]).toMatchObject({ queue: "default", jobId: null, settings: { paused: true } });
    expect(events[1]).toMatchObject({ worker: worker.id, queue: null, jobId: null });
    const [filtered] = await v.run(take(v.mill.events({ from: "start", queue: "default" }), 1));
    expect(filtered).toMatchObject({ kind: "queue-changed" });
  });
});

describe("bad input", () => {
  const v = useVirtualMill();

  test.each([
    [{ from: "yesterday" }, "invalid-cursor"],
    [{ from: 5 }, "invalid-option"],
    [{ form: "start" }, "invalid-option"],
    [{ kinds: ["finished"] }, "invalid-option"],
    [{ kinds: [] }, "invalid-option"],
    [{ queue: "" }, "invalid-name"],
    [{ tag: 7 }, "invalid-name"],
    [{ signal: {} }, "invalid-option"],
    [[], "invalid-option"],
  ])("%j is refused when it is given", (options, code) => {
    expect(() => v.mill.events(options as never)).toThrow(coded(code));
  });

  test("a cursor past the end of the feed is refused as one of another store", async () => {
    await expect(v.run(v.mill.events({ from: "e1-100" }).next())).rejects.toThrow(coded("invalid-cursor"));
  });

  test("on refuses unknown kinds and listeners that are not functions", () => {
    expect(() => v.mill.on("finished" as never, () => undefined)).toThrow(coded("invalid-option"));
    expect(() => v.mill.on("failed", "x" as never)).toThrow(coded("invalid-option"));
    expect(() => v.mill.on("failed", () => undefined, { from: "start" } as never)).toThrow(
      'on: unknown option "from"',
    );
    expect(() => v.mill.on("failed", () => undefined, { queue: "" })).toThrow(coded("invalid-name"));
  });
});
