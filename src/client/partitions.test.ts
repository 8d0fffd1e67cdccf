import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { MillraceError } from "../model/error.ts";
import { createPlacement } from "../model/routing/placement.ts";
import { handler } from "../worker/handler.ts";

const partitions = 4;
const placement = createPlacement(partitions);
const v = useVirtualMill({}, partitions);

const plain = job<{ n: number }>("plain");
const partitionsOf = (handles: readonly { readonly id: string }[]): Set<number> =>
  new Set(handles.map(({ id }) => placement.ofId(id)));

describe("on a store of several partitions", () => {
  test("jobs spread, one enqueueMany stays whole, and all of them are run", async () => {
    const handles = [];
    for (let n = 0; n < 40; n++) {
      handles.push(await v.run(v.mill.enqueue(plain, { n })));
      await v.advance(1);
    }
    expect(partitionsOf(handles)).toEqual(new Set([0, 1, 2, 3]));
    const many = await v.run(v.mill.enqueueMany(Array.from({ length: 50 }, (_, n) => plain.with({ n }))));
    expect(partitionsOf(many).size).toBe(1);
    const done: string[] = [];
    await v.run(v.mill.work([handler(plain, async ({ id }) => void done.push(id))], { concurrency: 3 }));
    await v.run(Promise.all([...handles, ...many].map((handle) => handle.result())));
    expect(new Set(done).size).toBe(90);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 90 } });
  });

  test("a waiting worker starts a job of any partition at once, and a delayed one when it is due", async () => {
    await v.run(v.mill.work([handler(plain, async () => undefined)]));
    await v.advance(60_000);
    for (let n = 0; n < 12; n++) {
      const from = v.platform.time.now;
      const handle = await v.run(v.mill.enqueue(plain, { n }, n % 2 === 0 ? {} : { delay: 5000 }));
      await v.run(handle.result());
      expect(v.platform.time.now - from).toBeLessThan(n % 2 === 0 ? 100 : 5200);
      await v.advance(777);
    }
  });

  test("a unique key holds, whichever partition it lies in", async () => {
    for (let n = 0; n < 12; n++) {
      const unique = `key-${n}`;
      const [first, second] = await v.run(
        Promise.all([v.mill.enqueue(plain, { n }, { unique }), v.mill.enqueue(plain, { n }, { unique })]),
      );
      expect(second.id).toBe(first.id);
      await v.advance(3);
    }
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 12 } });
  });

  test("an id and a key in different partitions are refused by name; with the same part in braces they are not", async () => {
    const refused = v.mill.enqueue(plain, { n: 1 }, { id: "order-{17}", unique: "pay-{18}" });
    await expect(v.run(refused)).rejects.toMatchObject({ code: "placement-conflict" });
    await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "order-{17}", unique: "pay-{17}" }));
    expect((await v.run(v.mill.jobs.get("order-{17}")))?.state).toBe("ready");
  });

  test("follow-ups and KV writes of a handler are written with its end, in its own partition", async () => {
    const parent = job<{ n: number }>("parent");
    const followed: string[] = [];
    await v.run(
      v.mill.work([
        handler(parent, async (context) => {
          context.enqueue(plain, { n: 1 });
          context.enqueue(plain, { n: 2 });
          context.kv.put("total-{17}", 3);
        }),
        handler(plain, async ({ id }) => void followed.push(id)),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(parent, { n: 1 }, { id: "order-{17}" }));
    await v.run(handle.result());
    await v.advance(1000);
    expect(partitionsOf(followed.map((id) => ({ id })))).toEqual(partitionsOf([handle]));
    expect(followed).toHaveLength(2);
    expect(await v.run(v.mill.kv.get("total-{17}"))).toBe(3);
  });

  test("an effect that cannot be written with the job's end is refused at its call, by each kind of effect", async () => {
    expect(placement.ofName("17")).not.toBe(placement.ofName("18"));
    const other = job<{ n: number }>("other");
    const failures: unknown[] = [];
    await v.run(
      v.mill.work([
        handler(plain, async ({ enqueue, kv, whenFailed }) => {
          const calls = [
            () => kv.put("total-{18}", 3),
            () => kv.delete("total-{18}"),
            () => enqueue(other, { n: 1 }, { id: "order-{18}" }),
            () => enqueue(other, { n: 1 }, { unique: "pay-{18}" }),
            () => enqueue(other, { n: 1 }, { kv: [{ key: "total-{18}", value: 3 }] }),
            () => whenFailed.kv.put("total-{18}", 3),
          ];
          for (const call of calls)
            try {
              call();
            } catch (error) {
              failures.push(error);
            }
          kv.put("total-{17}", 4);
          enqueue(other, { n: 1 }, { id: "next-{17}" });
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }, { id: "order-{17}" }));
    await v.run(handle.result());
    expect(failures).toHaveLength(6);
    for (const failure of failures) expect(failure).toMatchObject({ code: "placement-conflict" });
    expect(await v.run(v.mill.kv.get("total-{17}"))).toBe(4);
    expect((await v.run(v.mill.jobs.get("next-{17}")))?.state).toBe("ready");
    expect(await v.run(v.mill.kv.get("total-{18}"))).toBeUndefined();
  });

  test("a handler that does not catch it fails at once, without another attempt, and says why", async () => {
    let attempts = 0;
    await v.run(
      v.mill.work([
        handler(plain, async ({ kv }) => {
          attempts += 1;
          kv.put("total-{18}", 3);
        }),
      ]),
    );
    const given = { id: "order-{17}", retry: { attempts: 5 } };
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }, given));
    const failure: unknown = await v.run(handle.result().catch((error: unknown) => error));
    expect(failure).toBeInstanceOf(MillraceError);
    expect(String((failure as MillraceError).message)).toMatch(/partition/);
    expect(attempts).toBe(1);
    expect((await v.run(v.mill.jobs.get("order-{17}")))?.state).toBe("failed");
  });

  test("lists give the newest first over all partitions, page by page, each job once", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 25; n++) {
      ids.push((await v.run(v.mill.enqueue(plain, { n }))).id);
      await v.advance(2);
    }
    const listed: string[] = [];
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof v.mill.jobs.list>> = await v.run(
        v.mill.jobs.list({ limit: 4, cursor }),
      );
      listed.push(...page.jobs.map(({ id }) => id));
      cursor = page.cursor;
    } while (cursor !== null);
    expect(listed).toEqual(ids.toReversed());
  });

  test("the caller's KV is one over all partitions, and scans are in order", async () => {
    const keys = Array.from({ length: 30 }, (_, n) => `k${String(n).padStart(2, "0")}`);
    for (const key of keys) await v.run(v.mill.kv.put(key, key));
    const scanned: string[] = [];
    const scan = (async () => {
      for await (const { key } of v.mill.kv.scan("k")) scanned.push(key);
    })();
    await v.run(scan);
    expect(scanned).toEqual(keys);
    await expect(v.run(v.mill.kv.put("k03", 1, { version: 9 }))).rejects.toMatchObject({
      code: "version-conflict",
    });
  });
});
