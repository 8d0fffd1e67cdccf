/**
 * Permits that code takes by itself, on real stores and from several processes: one cap for jobs and permits alike,
 * waits that end in every way, and nothing left behind.
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { handler, job, limit } from "../../src/index.ts";
import { permitQueue } from "../../src/model/limits/permit.ts";
import type { Store } from "../../src/store/store.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { hangMs } from "../support/hang-ms.ts";

const places = usePlaces();
const timeout = hangMs;
const wait = hangMs;
const crashed = { to: "failed", event: "failed", reason: "crash-loop", result: null, keepMs: 0 } as const;

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();
  const processes = (): { mill: () => Promise<Millrace>; store: () => Promise<Store> } => {
    const open = place();
    return {
      mill: async () => closeLater(millOn(await open())),
      store: async () => closeLater(await open()),
    };
  };
  const leavesNothing = async (store: Store): Promise<void> => {
    await until("no job is left", async () => (await store.countJobs()).length === 0);
  };
  const slack = limit("slack", { concurrency: 3 });

  test("one cap holds for jobs and for permits of several processes, and each end lets the next start", async () => {
    const { mill, store } = processes();
    const send = job<number>("send", { limits: [slack], retention: { completed: 0 } });
    let [running, most] = [0, 0];
    const hold = async (weight: number): Promise<void> => {
      most = Math.max(most, (running += weight));
      await new Promise((resolve) => setImmediate(resolve));
      running -= weight;
    };
    const mills = await Promise.all([mill(), mill(), mill()]);
    for (const each of mills) await each.work([handler(send, () => hold(1))], { concurrency: 4 });
    const [first] = mills as [Millrace, ...Millrace[]];
    const handles = await first.enqueueMany(Array.from({ length: 30 }, (_, n) => send.with(n)));
    const held = mills.flatMap((each, at) =>
      Array.from({ length: 10 }, async (_, n) => {
        const weight = 1 + ((at + n) % 2);
        await using _permit = await each.limits.acquire(n % 3 === 0 ? slack : "slack", { weight, wait });
        await hold(weight);
      }),
    );
    await Promise.all([...handles.map((handle) => handle.result({ timeout }).catch(() => null)), ...held]);
    expect(most).toBe(3);
    expect((await first.limits.state("slack")).held).toBe(0);
    await leavesNothing(await store());
  });

  test("who tries once or waits in vain is refused as busy, and leaves nothing", async () => {
    const { mill, store } = processes();
    const [holder, other] = await Promise.all([mill(), mill()]);
    const permit = await holder.limits.acquire(slack, { weight: 2 });
    expect(await other.limits.state("slack")).toMatchObject({ held: 2, free: 1 });
    expect([await other.jobs.counts(), (await other.jobs.list()).jobs, await other.queues.list()]).toEqual([
      {},
      [],
      [],
    ]);
    await expect(other.limits.acquire("slack", { weight: 2, wait: 0 })).rejects.toMatchObject({
      code: "limit-busy",
    });
    await expect(other.limits.acquire("slack", { weight: 2, wait: "50ms" })).rejects.toMatchObject({
      code: "limit-busy",
      retryable: true,
    });
    const once = await other.limits.acquire("slack", { wait: 0 });
    const stop = new AbortController();
    const aborted = other.limits.acquire("slack", { wait, signal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(aborted).rejects.toMatchObject({ code: "aborted", cause: { message: "enough" } });
    await Promise.all([once.release(), once.release(), permit.release()]);
    expect(await other.limits.state("slack")).toMatchObject({ held: 0, free: 3 });
    await leavesNothing(await store());
  });

  test("a permit that one process gives back is taken by another that waits", async () => {
    const { mill, store } = processes();
    const [holder, other] = await Promise.all([mill(), mill()]);
    const permits = await Promise.all([1, 2, 3].map(() => holder.limits.acquire(slack)));
    const waiting = other.limits.acquire("slack", { wait });
    const look = await store();
    await until("it waits", async () => (await look.countJobs()).some(({ state }) => state === "ready"));
    await permits[0]?.release();
    const permit = await waiting;
    expect(await other.limits.state("slack")).toMatchObject({ held: 3, free: 0 });
    await Promise.all([permit, ...permits].map((each) => each.release()));
    await leavesNothing(look);
  });

  test("a holder that loses the lease gets it from the permit's signal, and its release does no harm", async () => {
    const { mill, store } = processes();
    const [holder, other] = await Promise.all([mill(), mill()]);
    const permit = await holder.limits.acquire(slack, { weight: 3, lease: "300ms" });
    const lost = new Promise((resolve) => permit.signal.addEventListener("abort", resolve, { once: true }));
    const look = await store();
    const [held] = (
      await look.findJobs({ filter: { queue: permitQueue }, max: 10, scanMax: 10, cursor: null })
    ).jobs;
    // What a reclaim does to a process that stood still: the lease is somebody else's, or nobody's.
    const [ended] = await look.changeIf([
      {
        id: held?.id ?? "",
        cases: [{ guard: { states: ["running"] }, next: crashed }],
      },
    ]);
    expect(ended).toMatchObject({ kind: "ok" });
    await lost;
    expect(permit.signal.reason).toMatchObject({ code: "lease-lost" });
    await permit.release();
    await (await other.limits.acquire("slack", { weight: 3, wait: 0 })).release();
    await leavesNothing(look);
  });

  test("a close ends waits and permits of its process, and frees them for the others", async () => {
    const { mill, store } = processes();
    const [closing, other] = await Promise.all([mill(), mill()]);
    const permit = await closing.limits.acquire(slack, { weight: 3 });
    const inVain = closing.limits.acquire("slack", { wait }).catch((error: unknown) => error);
    const waiting = other.limits.acquire("slack", { weight: 3, wait });
    await closing.close();
    expect(await inVain).toMatchObject({ code: "closed" });
    expect(permit.signal.reason).toMatchObject({ code: "closed" });
    await (await waiting).release();
    await leavesNothing(await store());
  });

  test("each key's cap holds for jobs and for permits of several processes, and so does that of all keys", async () => {
    const { mill, store } = processes();
    const shop = limit("shop", { concurrency: 5, perKey: { concurrency: 2 } });
    const send = job<string>("send", {
      limits: [shop.use({ key: (key: string) => key })],
      retention: { completed: 0 },
    });
    const keys = ["ann", "bob", "cid", "dan"];
    const [running, most] = [new Map<string, number>(), new Map<string, number>()];
    const change = (key: string, by: number): void => {
      for (const of of [key, "all"]) {
        const now = (running.get(of) ?? 0) + by;
        running.set(of, now);
        most.set(of, Math.max(now, most.get(of) ?? 0));
      }
    };
    const hold = async (key: string, weight: number): Promise<void> => {
      change(key, weight);
      await new Promise((resolve) => setImmediate(resolve));
      change(key, -weight);
    };
    const mills = await Promise.all([mill(), mill(), mill()]);
    for (const each of mills)
      await each.work([handler(send, ({ input }) => hold(input, 1))], { concurrency: 4 });
    const [first] = mills as [Millrace, ...Millrace[]];
    const jobs = Array.from({ length: 24 }, (_, n) => send.with(keys[n % 4] ?? ""));
    const handles = await first.enqueueMany(jobs);
    const held = mills.flatMap((each, at) =>
      Array.from({ length: 16 }, async (_, n) => {
        const [key, weight] = [keys[n % 4] ?? "", 1 + ((at + n) % 2)];
        await using permit = await each.limits.acquire(n % 3 === 0 ? shop : "shop", { key, weight, wait });
        expect(permit.key).toBe(key);
        await hold(key, weight);
      }),
    );
    await Promise.all([...handles.map((handle) => handle.result({ timeout }).catch(() => null)), ...held]);
    for (const key of keys) expect(most.get(key)).toBe(2);
    expect(most.get("all")).toBeLessThanOrEqual(5);
    for (const key of keys) expect((await first.limits.state("shop", { key })).held).toBe(0);
    expect((await first.limits.state("shop")).held).toBe(0);
    await leavesNothing(await store());
  });

  test("a key that is full keeps no other waiting, and who waits for it in another process gets it", async () => {
    const { mill, store } = processes();
    const shop = limit("shop", { perKey: { concurrency: 1 } });
    const [holder, other] = await Promise.all([mill(), mill()]);
    const permit = await holder.limits.acquire(shop, { key: "ann" });
    const waiting = other.limits.acquire("shop", { key: "ann", wait });
    await expect(other.limits.acquire("shop", { key: "ann", wait: 0 })).rejects.toMatchObject({
      code: "limit-busy",
    });
    for (const key of ["bob", "cid", "dan", "eve"])
      await (await other.limits.acquire("shop", { key, wait: 0 })).release();
    await expect(other.limits.acquire("shop", { key: "ann", wait: "50ms" })).rejects.toMatchObject({
      code: "limit-busy",
    });
    await expect(other.limits.acquire("shop")).rejects.toMatchObject({ code: "invalid-option" });
    await permit.release();
    const next = await waiting;
    expect(await holder.limits.state("shop", { key: "ann" })).toMatchObject({ held: 1, free: 0 });
    await next.release();
    await leavesNothing(await store());
  });
});
