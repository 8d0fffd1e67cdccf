import { describe, expect, test } from "vitest";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { MillraceError } from "../../model/error.ts";
import { Batcher } from "./batcher.ts";
import type { BatcherOptions } from "./batcher.ts";
import { Flush } from "./flush.ts";

function open(
  call: BatcherOptions<number, number>["call"],
  more: Partial<BatcherOptions<number, number>> = {},
) {
  const platform = createVirtualPlatform();
  const batcher = new Batcher<number, number>({
    platform,
    flush: new Flush(platform),
    call,
    weightMax: 10,
    giveUpMs: 1000,
    ...more,
  });
  return { batcher, run: <Value>(promise: Promise<Value>) => runUntil(platform, promise), platform };
}

describe("natural batching", () => {
  test("items of one flush go in one call, and items that arrive during a call join the next", async () => {
    const calls: number[][] = [];
    const { batcher, run } = open(async (items) => {
      calls.push([...items]);
      if (calls.length === 1) late.push(batcher.add(4), batcher.add(5));
      return items.map((item) => item * 2);
    });
    const late: Promise<number>[] = [];
    expect(await run(Promise.all([1, 2, 3].map((item) => batcher.add(item))))).toEqual([2, 4, 6]);
    expect(await run(Promise.all(late))).toEqual([8, 10]);
    expect(calls).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
    await run(batcher.whenIdle());
  });

  test("a second call is sent during the first if it carries many items, a third never", async () => {
    const answers: (() => void)[] = [];
    const calls: number[][] = [];
    const { batcher, run, platform } = open(
      async (items) => {
        calls.push([...items]);
        await new Promise<void>((resolve) => answers.push(resolve));
        return [...items];
      },
      { secondFrom: 3 },
    );
    const turnEnds = (): Promise<void> => run(new Promise((resolve) => platform.defer(resolve)));
    const all: Promise<number>[] = [];
    const add = (...items: number[]): Promise<void> => {
      for (const item of items) all.push(batcher.add(item));
      return turnEnds();
    };
    await add(1);
    await add(2, 3);
    expect(calls).toEqual([[1]]);
    await add(4);
    await add(5, 6, 7);
    expect(calls).toEqual([[1], [2, 3, 4]]);
    for (let landed = 0; landed < calls.length; landed++) {
      answers[landed]?.();
      await turnEnds();
      await turnEnds();
    }
    expect(await run(Promise.all(all))).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(calls).toEqual([[1], [2, 3, 4], [5, 6, 7]]);
    await run(batcher.whenIdle());
  });

  test("a call carries at most its maximum weight, and a heavier item has a call of its own", async () => {
    const calls: number[][] = [];
    const { batcher, run } = open(async (items) => (calls.push([...items]), [...items]), {
      weigh: (item) => item,
    });
    await run(Promise.all([4, 4, 4, 99, 1].map((item) => batcher.add(item))));
    expect(calls).toEqual([[4, 4], [4], [99], [1]]);
  });

  test("a bad item is found by splitting in halves and fails alone", async () => {
    const { batcher, run } = open(async (items) => {
      if (items.includes(3)) throw new MillraceError("not-yet-supported", "three");
      return [...items];
    });
    const answers = await run(Promise.allSettled([1, 2, 3, 4, 5].map((item) => batcher.add(item))));
    expect(answers.map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
      "fulfilled",
    ]);
  });

  test("if a store comes back in time, no item fails, and repeated items are marked", async () => {
    let tries = 0;
    const seen: number[][] = [];
    const { batcher, run } = open(
      async (items) => {
        seen.push([...items]);
        tries += 1;
        if (tries === 1) throw new MillraceError("store-busy", "busy");
        if (tries === 2) throw new MillraceError("outcome-unknown", "lost");
        return [...items];
      },
      { again: (item) => item + 100 },
    );
    expect(await run(batcher.add(1))).toBe(101);
    expect(seen).toEqual([[1], [1], [101]]);
  });

  test("a store that stays away is given up after giveUpMs", async () => {
    const { batcher, run, platform } = open(() =>
      Promise.reject(new MillraceError("store-unavailable", "away")),
    );
    await expect(run(batcher.add(1))).rejects.toMatchObject({ code: "store-unavailable" });
    expect(platform.time.elapsedUs).toBeGreaterThanOrEqual(1_000_000);
  });

  test("a locked item waits in a line of its own, and the others neither wait for it nor share its call", async () => {
    const calls: number[][] = [];
    let isHeld = true;
    const { batcher, run, platform } = open(async (items) => {
      calls.push([...items]);
      return items.map((item) => (item === 7 && isHeld ? { kind: "locked" } : item));
    });
    const held = batcher.add(7);
    expect(await run(Promise.all([1, 2].map((item) => batcher.add(item))))).toEqual([1, 2]);
    expect(await run(batcher.add(3))).toBe(3);
    expect(platform.time.elapsedUs).toBeLessThan(1000);
    const idle = batcher.whenIdle();
    platform.setTimer(300, () => (isHeld = false));
    expect(await run(held)).toBe(7);
    await run(idle);
    expect(calls.slice(0, 2)).toEqual([[7, 1, 2], [3]]);
    expect(new Set(calls.slice(2).flat())).toEqual(new Set([7]));
    expect(calls.length).toBeLessThan(10);
  });

  test("an item that stays locked for longer than giveUpMs fails, and has not happened", async () => {
    const { batcher, run, platform } = open(async (items) => items.map(() => ({ kind: "locked" })));
    await expect(run(batcher.add(1))).rejects.toMatchObject({
      code: "store-busy",
      outcome: "did-not-happen",
    });
    expect(platform.time.elapsedUs).toBeGreaterThanOrEqual(1_000_000);
    await run(batcher.whenIdle());
  });

  test("an error that is not a MillraceError is passed on at once", async () => {
    const { batcher, run } = open(() => Promise.reject(new TypeError("a bug")));
    await expect(run(batcher.add(1))).rejects.toThrow("a bug");
  });
});

describe("giving up", () => {
  test("an item is given up after giveUp from when it was pushed, also behind a batch that hangs", async () => {
    const { batcher, run, platform } = open(() => new Promise(() => undefined));
    const from = platform.time.now;
    const ends: [code: string, outcome: string, afterMs: number][] = [];
    const push = (item: number): Promise<void> =>
      batcher.add(item).then(
        () => undefined,
        (error: MillraceError) => void ends.push([error.code, error.outcome, platform.time.now - from]),
      );
    const first = push(1);
    await run(new Promise<void>((resolve) => void platform.setTimer(400, resolve)));
    await run(Promise.all([first, push(2)]));
    expect(ends).toEqual([
      ["outcome-unknown", "unknown", 1000],
      ["store-unavailable", "did-not-happen", 1400],
    ]);
  });

  test("what was given up before it was sent is not sent later, and a late answer is dropped", async () => {
    const sent: number[] = [];
    let answer = (): void => undefined;
    const { batcher, run, platform } = open(async (items) => {
      sent.push(...items);
      if (items[0] === 1) await new Promise<void>((resolve) => (answer = resolve));
      return [...items];
    });
    const outcomeOf = (item: number): Promise<unknown> =>
      batcher.add(item).catch((error: MillraceError) => error.outcome);
    const first = outcomeOf(1);
    await run(new Promise<void>((resolve) => void platform.setTimer(1, resolve)));
    expect(await run(Promise.all([first, outcomeOf(2)]))).toEqual(["unknown", "did-not-happen"]);
    const third = batcher.add(3);
    answer();
    expect(await run(third)).toBe(3);
    expect(sent).toEqual([1, 3]);
  });

  test("in a line that moves, an item waits for longer than giveUp", async () => {
    const { batcher, run, platform } = open(
      async (items) => {
        await new Promise<void>((resolve) => void platform.setTimer(600, resolve));
        return [...items];
      },
      { weightMax: 1, weigh: () => 1 },
    );
    expect(await run(Promise.all([1, 2, 3, 4].map((item) => batcher.add(item))))).toEqual([1, 2, 3, 4]);
  });
});
