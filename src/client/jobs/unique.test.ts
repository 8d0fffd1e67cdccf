import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const plain = job<{ n: number }, number>("plain");
const v = useVirtualMill();

describe("unique keys", () => {
  test("skip returns the first job until it ends", async () => {
    const first = await v.run(v.mill.enqueue(plain, { n: 1 }, { unique: "k" }));
    const second = await v.run(v.mill.enqueue(plain, { n: 2 }, { unique: "k" }));
    expect([second.id, second.how]).toEqual([first.id, "existing"]);
    await v.run(v.mill.work([handler(plain, async () => 1)]));
    await v.run(first.result());
    expect((await v.run(v.mill.enqueue(plain, { n: 3 }, { unique: "k" }))).created).toBe(true);
  });

  test("replace takes the waiting job's place, debounce waits for the last of a burst, throttle skips for a while", async () => {
    const first = await v.run(
      v.mill.enqueue(plain, { n: 1 }, { delay: "1h", unique: { key: "r", policy: "replace" } }),
    );
    const second = await v.run(
      v.mill.enqueue(plain, { n: 2 }, { delay: "2h", unique: { key: "r", policy: "replace" } }),
    );
    expect([second.id, second.how]).toEqual([first.id, "replaced"]);
    expect(await v.run(v.mill.jobs.get(first.id))).toMatchObject({ input: { n: 2 } });
    const quiet = { key: "d", policy: "debounce" } as const;
    const waiting = await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "1m", unique: quiet }));
    await v.advance(50_000);
    expect((await v.run(v.mill.enqueue(plain, { n: 9 }, { delay: "1m", unique: quiet }))).how).toBe(
      "replaced",
    );
    const moved = await v.run(v.mill.jobs.get(waiting.id));
    expect(moved).toMatchObject({ input: { n: 9 }, uniqueKey: "d" });
    expect(moved!.dueAt.getTime()).toBe(v.platform.time.now + 60_000);
    const once = { key: "t", policy: "once-per", window: "1m" } as const;
    await v.run(v.mill.work([handler(plain, async () => 1)]));
    const ran = await v.run(v.mill.enqueue(plain, { n: 1 }, { unique: once }));
    await v.run(ran.result());
    expect((await v.run(v.mill.enqueue(plain, { n: 1 }, { unique: once }))).how).toBe("existing");
    await v.advance(60_000);
    expect((await v.run(v.mill.enqueue(plain, { n: 1 }, { unique: once }))).how).toBe("created");
  });

  test("a debounce without a time to move is refused", async () => {
    const refused = v.mill.enqueue(plain, { n: 1 }, { unique: { key: "d", policy: "debounce" } });
    await expect(v.run(refused)).rejects.toThrow(coded("invalid-option"));
  });

  test("one key for two definitions makes two jobs, unless the scope says otherwise", async () => {
    const [charge, ship] = [job<{ n: number }, string>("charge"), job<{ n: number }, string>("ship")];
    const first = await v.run(v.mill.enqueue(charge, { n: 1 }, { unique: "order-7" }));
    const second = await v.run(v.mill.enqueue(ship, { n: 1 }, { unique: "order-7", queue: "other" }));
    expect([first.created, second.created]).toEqual([true, true]);
    const elsewhere = await v.run(v.mill.enqueue(charge, { n: 1 }, { unique: "order-7", queue: "third" }));
    expect(elsewhere.id).toBe(first.id);
    for (const scope of ["queue", "global"] as const) {
      const unique = { key: "wide", scope };
      const holder = await v.run(v.mill.enqueue(charge, { n: 1 }, { unique }));
      const other = await v.run(v.mill.enqueue(ship, { n: 1 }, { unique }));
      expect([other.id, other.how]).toEqual([holder.id, "existing"]);
    }
  });

  test("a handle never gives the result of another job", async () => {
    const [charge, ship] = [job<{ n: number }, string>("charge"), job<{ n: number }, number>("ship")];
    await v.run(v.mill.work([handler(charge, async () => "charged")]));
    const unique = { key: "k", scope: "global", window: "1h" } as const;
    const holder = await v.run(v.mill.enqueue(charge, { n: 1 }, { unique }));
    const other = await v.run(v.mill.enqueue(ship, { n: 1 }, { unique }));
    await expect(v.run(other.result())).rejects.toThrow(coded("other-job"));
    await expect(v.run(other.peek())).rejects.toThrow(coded("other-job"));
    await expect(v.run(v.mill.handle(ship, holder.id).result())).rejects.toThrow(coded("other-job"));
    await expect(v.run(v.mill.jobs.get(ship, holder.id))).rejects.toThrow(coded("other-job"));
    expect(await v.run(v.mill.handle(charge, holder.id).result())).toBe("charged");
    expect((await v.run(v.mill.jobs.get(charge, holder.id)))?.result).toBe("charged");
  });

  test("waiting for the result of a job of another name is refused at once, not at that job's end", async () => {
    const [charge, ship] = [job<{ n: number }, string>("charge"), job<{ n: number }, number>("ship")];
    const unique = { key: "k", scope: "global" } as const;
    const { id } = await v.run(v.mill.enqueue(charge, { n: 1 }, { unique, delay: "1h" }));
    const other = await v.run(v.mill.enqueue(ship, { n: 1 }, { unique }));
    for (const wait of [
      () => other.result({ timeout: "1m" }),
      () => v.mill.handle(ship, id).result({ timeout: "1m" }),
      () => v.mill.call(ship, { n: 1 }, { unique, timeout: "1m" }),
    ])
      await expect(v.run(wait())).rejects.toThrow(coded("other-job"));
    expect((await v.run(v.mill.jobs.get(charge, id)))?.state).toBe("scheduled");
  });

  test("a field that the input does not have is refused, already at the definition if its schema shows that", async () => {
    const email = job<{ to: string; cc?: string }>("email", { unique: { fields: ["cc"] } });
    await expect(v.run(v.mill.enqueue(email, { to: "a" }))).rejects.toThrow(/has no field "cc"/);
    expect((await v.run(v.mill.enqueue(email, { to: "a", cc: "b" }))).created).toBe(true);
    const untyped = { unique: { fields: ["tO"] } } as never;
    await expect(v.run(v.mill.enqueue(email, { to: "a" }, untyped))).rejects.toThrow(coded("invalid-option"));
    expect(() => job("email", { unique: { fields: ["items[*]"] } })).toThrow(coded("invalid-option"));
  });

  test("a key can be computed from fields of the input, and scopes do not share keys", async () => {
    const email = job<{ to: string; body: string }>("email", { unique: { fields: ["to"] } });
    const elsewhere = job<{ to: string; body: string }>("email", {
      queue: "other",
      unique: { fields: ["to"], scope: "queue" },
    });
    const first = await v.run(v.mill.enqueue(email, { to: "a", body: "1" }));
    expect((await v.run(v.mill.enqueue(email, { to: "a", body: "2" }))).id).toBe(first.id);
    expect((await v.run(v.mill.enqueue(email, { to: "b", body: "2" }))).created).toBe(true);
    expect((await v.run(v.mill.enqueue(elsewhere, { to: "a", body: "2" }))).created).toBe(true);
  });
});
