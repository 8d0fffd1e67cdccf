import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { firstShare, shareSlots } from "./slot-shares.ts";
import type { ShareMember, SlotShares } from "./slot-shares.ts";

const queueNames = ["a", "b", "c", "d", "e"];
const totalsOf = fc
  .uniqueArray(fc.tuple(fc.constantFrom(...queueNames), fc.integer({ min: 1, max: 60 })), {
    selector: ([queue]) => queue,
    minLength: 1,
  })
  .map((entries) => new Map(entries));
const ids = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 12 });

const member = (id: string, queues: Iterable<string>, slotsMax = 1_000_000, process = id): ShareMember => ({
  id,
  process,
  weights: Object.fromEntries([...queues].map((queue) => [queue, 1])),
  slotsMax,
});
const sumOf = (shares: SlotShares, queue: string): number =>
  [...shares.values()].reduce((sum, slots) => sum + (slots.get(queue) ?? 0), 0);
const loadOf = (shares: SlotShares, id: string): number =>
  [...(shares.get(id)?.values() ?? [])].reduce((sum, slots) => sum + slots, 0);

describe("worker totals", () => {
  test("are shared out exactly, and nobody has more than one slot more than another", () => {
    fc.assert(
      fc.property(totalsOf, ids, (totals, workers) => {
        const shares = shareSlots(
          totals,
          workers.map((id) => member(id, totals.keys())),
        );
        for (const [queue, total] of totals) {
          expect(sumOf(shares, queue)).toBe(total);
          const each = workers.map((id) => shares.get(id)?.get(queue) ?? 0);
          expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1);
        }
        const loads = workers.map((id) => loadOf(shares, id));
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("of one each over three queues end up on three workers", () => {
    const totals = new Map(["mail", "reports", "thumbnails"].map((queue) => [queue, 1]));
    fc.assert(
      fc.property(fc.uniqueArray(fc.string(), { minLength: 3, maxLength: 3 }), (workers) => {
        const shares = shareSlots(
          totals,
          workers.map((id) => member(id, totals.keys())),
        );
        expect(workers.map((id) => loadOf(shares, id))).toEqual([1, 1, 1]);
      }),
    );
  });

  test("are the same whatever the order in which workers are listed", () => {
    fc.assert(
      fc.property(totalsOf, ids, (totals, workers) => {
        const members = workers.map((id) => member(id, totals.keys(), 20));
        const forth = shareSlots(totals, members);
        const back = shareSlots(totals, members.toReversed());
        for (const id of workers) expect(new Map(back.get(id))).toEqual(new Map(forth.get(id)));
      }),
    );
  });

  test("of one queue move only to who joins and from who leaves", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), ids, (total, workers) => {
        const totals = new Map([["q", total]]);
        const [, ...rest] = workers;
        const all = shareSlots(
          totals,
          workers.map((id) => member(id, ["q"])),
        );
        const without = shareSlots(
          totals,
          rest.map((id) => member(id, ["q"])),
        );
        for (const id of rest) expect(loadOf(all, id)).toBeLessThanOrEqual(loadOf(without, id));
      }),
    );
  });

  test("of several queues move between those that stay by no more than their remainders", () => {
    fc.assert(
      fc.property(totalsOf, ids, (totals, workers) => {
        const [, ...rest] = workers;
        if (rest.length === 0) return;
        const all = shareSlots(
          totals,
          workers.map((id) => member(id, totals.keys())),
        );
        const without = shareSlots(
          totals,
          rest.map((id) => member(id, totals.keys())),
        );
        for (const queue of totals.keys()) {
          const grown = rest.map((id) => (all.get(id)?.get(queue) ?? 0) - (without.get(id)?.get(queue) ?? 0));
          expect(Math.max(...grown)).toBeLessThanOrEqual(1);
          const remainder = (totals.get(queue) ?? 0) % workers.length;
          expect(grown.filter((by) => by > 0).length).toBeLessThanOrEqual(remainder);
        }
      }),
    );
  });

  test("never give a worker more than its bound or a queue more than its total, whoever declared what", () => {
    const members = fc
      .array(
        fc.tuple(fc.subarray(queueNames), fc.integer({ min: 1, max: 30 }), fc.integer({ max: 5, min: 0 })),
        {
          maxLength: 10,
        },
      )
      .map((all) => all.map(([queues, slotsMax, at], n) => member(`w${n}`, queues, slotsMax, `p${at}`)));
    fc.assert(
      fc.property(totalsOf, members, (totals, workers) => {
        const shares = shareSlots(totals, workers);
        for (const { id, slotsMax } of workers) expect(loadOf(shares, id)).toBeLessThanOrEqual(slotsMax);
        for (const own of Map.groupBy(workers, ({ process }) => process).values()) {
          const load = own.reduce((sum, { id }) => sum + loadOf(shares, id), 0);
          expect(load).toBeLessThanOrEqual(Math.max(...own.map(({ slotsMax }) => slotsMax)));
        }
        for (const [queue, total] of totals) expect(sumOf(shares, queue)).toBeLessThanOrEqual(total);
        for (const slots of shares.values()) expect(Math.min(0, ...slots.values())).toBe(0);
      }),
    );
  });

  test("of a process are bounded together, and the rest goes to another process", () => {
    const workers = [
      ...["a", "b", "c"].map((id) => member(id, ["q"], 64, "one")),
      ...["d"].map((id) => member(id, ["q"], 64, "two")),
    ];
    const shares = shareSlots(new Map([["q", 120]]), workers);
    expect(["a", "b", "c"].reduce((sum, id) => sum + loadOf(shares, id), 0)).toBe(64);
    expect(loadOf(shares, "d")).toBe(56);
  });

  test("go to who has room where one worker's bound is too small", () => {
    const totals = new Map([["q", 10]]);
    const shares = shareSlots(totals, [member("small", ["q"], 2), member("large", ["q"], 64)]);
    expect([loadOf(shares, "small"), loadOf(shares, "large")]).toEqual([2, 8]);
  });

  test("that do not fit into a worker leave every queue a slot, and the others by weight", () => {
    const totals = new Map([
      ["heavy", 100],
      ["light", 100],
      ["rare", 1],
    ]);
    const only = { id: "only", process: "p", weights: { heavy: 3, light: 1, rare: 1 }, slotsMax: 21 };
    expect(Object.fromEntries(shareSlots(totals, [only]).get("only") ?? [])).toEqual({
      heavy: 15,
      light: 5,
      rare: 1,
    });
  });

  test("before the first assignment are rounded up, and bounded", () => {
    expect(firstShare(40, 3, 64)).toBe(14);
    expect(firstShare(1, 3, 64)).toBe(1);
    expect(firstShare(400, 0, 64)).toBe(64);
  });
});
