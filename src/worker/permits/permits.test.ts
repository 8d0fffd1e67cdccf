import { describe, expect, test } from "vitest";
import { aJob } from "../../../test/support/builders.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { limitGateKey } from "../../model/limits/gate.ts";
import { writePolicy } from "../../model/job/job-policy.ts";
import { permitName, permitPolicy, permitQueue, permitTtlMs } from "../../model/limits/permit.ts";
import { handler } from "../handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const v = useVirtualMill();
const one = limit("one", { concurrency: 1 });

const inStore = async (): Promise<number> => {
  const stateCounts = await v.run(v.store.countJobs());
  return stateCounts.reduce((sum, { count }) => sum + count, 0);
};

describe("a permit", () => {
  test("is held over many leases, and given back when its block ends", async () => {
    const block = async (): Promise<void> => {
      await using permit = await v.mill.limits.acquire(one);
      await v.mill.limits.state("one").then(({ held, free }) => expect([held, free]).toEqual([1, 0]));
      await new Promise<void>((resolve) => void v.platform.setTimer(10 * 60_000, resolve));
      expect([permit.limit, permit.weight, permit.signal.aborted]).toEqual(["one", 1, false]);
    };
    await v.run(block());
    expect(await v.run(v.mill.limits.state("one"))).toMatchObject({ held: 0, free: 1 });
    expect(await inStore()).toBe(0);
  });

  test("of a block that does not wait for its end is given back too", async () => {
    {
      using _permit = await v.run(v.mill.limits.acquire(one));
    }
    await v.advance(10);
    expect(await inStore()).toBe(0);
  });

  test("may be waited for longer than a permit job lives", async () => {
    const held = await v.run(v.mill.limits.acquire(one));
    const waiting = v.mill.limits.acquire("one", { wait: "1h" });
    await v.advance(10 * permitTtlMs);
    expect(await inStore()).toBeLessThanOrEqual(3);
    await v.run(held.release());
    const permit = await v.run(waiting);
    await v.run(permit.release());
    await v.advance(2 * permitTtlMs);
    expect(await inStore()).toBe(0);
  });

  test("that one process gives back is taken at once by another that waits, without a poll", async () => {
    const other = millOn({ ...v.store, close: async () => undefined }, {}, v.platform);
    const held = await v.run(v.mill.limits.acquire(one));
    let isTaken = false;
    const waiting = other.limits.acquire("one", { wait: "1h" }).then((permit) => {
      isTaken = true;
      return permit;
    });
    await v.advance(20_000);
    expect(isTaken).toBe(false);
    await v.run(held.release());
    await v.advance(100);
    expect(isTaken).toBe(true);
    await v.run((await waiting).release());
    await v.run(other.close());
  });

  test("is taken by a handler for a stretch of its job, also where all jobs have a timeout", async () => {
    await v.reopen({ defaults: { timeout: "1s" } });
    const report = job<number, number>("report", { timeout: "1h" });
    const slow = deferred();
    const work = handler(report, async ({ input, signal }) => {
      await using _permit = await v.mill.limits.acquire(one, { wait: "1h", signal });
      await slow.promise;
      return input;
    });
    await v.run(v.mill.work([work]));
    const handle = await v.run(v.mill.enqueue(report, 7));
    await v.advance(60_000);
    expect(await v.run(v.mill.limits.state("one"))).toMatchObject({ held: 1 });
    slow.resolve();
    expect(await v.run(handle.result())).toBe(7);
  });

  test("waits for the tokens of a rate by the limit's own clock", async () => {
    const rated = limit("rated", { rate: { max: 1, per: "10s" } });
    await v.run((await v.run(v.mill.limits.acquire(rated))).release());
    const waiting = v.mill.limits.acquire(rated);
    await v.advance(9900);
    expect(await v.run(v.mill.limits.state("rated"))).toMatchObject({ held: 0 });
    await v.advance(200);
    await v.run((await v.run(waiting)).release());
    await expect(v.run(v.mill.limits.acquire(rated, { wait: 0 }))).rejects.toEqual(coded("limit-busy"));
  });

  test("job of a process that died while it waited goes by itself", async () => {
    const held = await v.run(v.mill.limits.acquire(one));
    const left = {
      ...aJob({
        id: "left",
        queue: permitQueue,
        name: permitName("one", 1),
        policy: writePolicy(permitPolicy),
      }),
      ...{ ttlMs: permitTtlMs, gates: [{ key: limitGateKey("one"), weight: 1 }] },
    };
    await v.run(v.store.submit([{ jobs: [left] }]));
    await v.advance(permitTtlMs / 2);
    expect(await inStore()).toBe(2);
    await v.advance(permitTtlMs);
    expect(await inStore()).toBe(1);
    await v.run(held.release());
    expect(await inStore()).toBe(0);
  });
});

describe("while the store fails", () => {
  test("who cannot submit is refused by the store's error, and takes nothing from who waits elsewhere", async () => {
    const other = millOn(v.store, {}, v.platform);
    const held = await v.run(v.mill.limits.acquire(one));
    const waiting = other.limits.acquire("one", { wait: "1h" });
    await v.advance(100);
    const submit = v.store.submit.bind(v.store);
    v.store.submit = () => Promise.reject(new MillraceError("store-unavailable", "away"));
    const refused = v.run(v.mill.limits.acquire("one", { wait: "1h" }));
    await expect(refused).rejects.toEqual(coded("store-unavailable"));
    v.store.submit = submit;
    await v.run(held.release());
    await v.advance(100);
    await v.run((await v.run(waiting)).release());
    expect(await inStore()).toBe(0);
  });

  test("a claim whose reply was lost is found, and whoever waits for it gets its permit", async () => {
    const claim = v.store.claim.bind(v.store);
    v.store.claim = async (request) => {
      v.store.claim = claim;
      await claim(request);
      throw new MillraceError("outcome-unknown", "lost");
    };
    const permit = await v.run(v.mill.limits.acquire(one, { wait: "10s" }));
    expect(await v.run(v.mill.limits.state("one"))).toMatchObject({ held: 1 });
    await v.run(permit.release());
    expect(await inStore()).toBe(0);
  });
});

describe("acquire refuses", () => {
  test("what can never be taken, before anything is written", async () => {
    const { limits } = v.mill;
    await v.run(limits.define(one));
    const refused: readonly (readonly [unknown, object, string])[] = [
      ["unheard", {}, "unknown-limit"],
      ["one", { weight: 2 }, "invalid-option"],
      ["one", { weight: 0 }, "invalid-option"],
      ["one", { weight: 1.5 }, "invalid-option"],
      ["one", { key: "" }, "invalid-name"],
      ["one", { key: 7 }, "invalid-name"],
      ["unheard", { key: "ann" }, "unknown-limit"],
      ["one", { wait: -1 }, "invalid-duration"],
      ["one", { lease: 1 }, "invalid-duration"],
      ["one", { signal: "no" }, "invalid-option"],
      ["one", { waits: 1 }, "invalid-option"],
      ["one", null as unknown as object, "invalid-option"],
      ["", {}, "invalid-name"],
      [7, {}, "invalid-name"],
    ];
    for (const [name, options, code] of refused)
      await expect(v.run(limits.acquire(name as string, options)), code).rejects.toEqual(coded(code));
    await expect(
      v.run(limits.acquire("one", { signal: AbortSignal.abort(new Error("no")) })),
    ).rejects.toMatchObject({ code: "aborted", cause: { message: "no" } });
    expect(await inStore()).toBe(0);
  });

  test("a limit that this process defines otherwise", async () => {
    await v.run(v.mill.limits.define(one));
    const refused = v.mill.limits.acquire(limit("one", { concurrency: 2 }));
    await expect(v.run(refused)).rejects.toEqual(coded("limit-conflict"));
  });

  test("who comes after the close", async () => {
    const other = millOn(v.store, {}, v.platform);
    await v.run(v.mill.limits.define(one));
    await v.run(other.close()).catch(() => undefined);
    await expect(v.run(other.limits.acquire("one"))).rejects.toEqual(coded("closed"));
  });
});
