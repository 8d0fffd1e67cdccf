import { describe, expect, test } from "vitest";
import { eventCodes } from "../../model/events/event-kind.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { emptyHints } from "./hints.ts";
import type { Hint } from "../store.ts";
import { openWatch } from "./watch.ts";
import type { Ears, PackedFeed, PackedRecord, WatchOptions } from "./watch.ts";

/** A feed and a line to other processes that a test fills, cuts and restores, on virtual time. */
function aShared(given: Partial<WatchOptions> = {}) {
  const platform = createVirtualPlatform();
  const records: PackedRecord[] = [];
  const line = { isUp: true, ears: null as Ears | null, isClosed: false };
  const feed = { isAway: false, reads: 0, answerMs: 0 };
  const readFeed = async (after: number, max: number): Promise<PackedFeed> => {
    feed.reads += 1;
    if (feed.isAway) throw new Error("the store is away");
    const end = records.at(-1)?.[0] ?? 0;
    const page = after < 0 ? [] : records.filter(([number]) => number > after).slice(0, max);
    if (feed.answerMs > 0) await new Promise<void>((done) => platform.setTimer(feed.answerMs, done));
    return { end, records: page };
  };
  const watch = openWatch({
    ...given,
    timers: platform,
    readFeed,
    listen(ears) {
      line.ears = ears;
      return { isListening: () => line.isUp, close: () => void (line.isClosed = true) };
    },
  });
  return {
    watch,
    line,
    feed,
    records,
    time: platform.time,
    /** Another process's job becomes ready. */
    emit: (route: number): void => {
      const body = [eventCodes.submitted, 0, route, stateCodes.ready, 0, "", `job-${route}`].join("\x1f");
      records.push([(records.at(-1)?.[0] ?? 0) + 1, platform.now(), body]);
    },
    advanceMs: (ms: number) => platform.time.advance(ms * 1000),
  };
}

function readyHints(...routes: number[]) {
  const hints = emptyHints();
  for (const route of routes) hints.routes.add(route);
  return hints;
}

const ready = (...routes: number[]): Hint => ({ kind: "ready", routes });

describe("a watch", () => {
  test("hands out hints of its own process at once, and of others as they are heard", () => {
    const { watch, line } = aShared();
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    watch.emitOwn(readyHints(1));
    line.ears?.heard(readyHints(2));
    expect(heard).toEqual([ready(1), ready(2)]);
  });

  test("notes how far the feed has come four times a minute; of several in one process each so much more rarely", async () => {
    for (const watches of [1, 16]) {
      const { watch, feed, advanceMs } = aShared({ watches: () => watches });
      watch.add(() => undefined);
      await advanceMs(1000);
      feed.reads = 0;
      await advanceMs(480_000);
      expect(feed.reads).toBe(32 / watches);
    }
  });

  test("finds in the feed what comes while it is not listening, each second, and what came before that was known", async () => {
    const { watch, line, emit, advanceMs } = aShared();
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(6000);
    emit(1);
    line.isUp = false;
    line.ears?.changed();
    await advanceMs(0);
    expect(heard).toEqual([ready(1)]);
    emit(2);
    await advanceMs(999);
    expect(heard).toEqual([ready(1)]);
    await advanceMs(1);
    expect(heard).toEqual([ready(1), ready(2)]);
    emit(3);
    line.isUp = true;
    line.ears?.changed();
    await advanceMs(0);
    expect(heard).toEqual([ready(1), ready(2), ready(3)]);
  });

  test("does not read what it heard: while it listens it only notes how far the feed has come", async () => {
    const { watch, line, feed, emit, advanceMs } = aShared();
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(0);
    const { reads } = feed;
    for (let route = 1; route <= 300; route++) emit(route);
    await advanceMs(30_000);
    expect(feed.reads).toBe(reads + 2);
    expect(heard).toEqual([]);
    emit(301);
    line.ears?.heard(emptyHints(), true);
    await advanceMs(0);
    expect(heard).toEqual([ready(301)]);
  });

  test("looks again when it is called for a look while one is on its way, which may have been too early", async () => {
    const { watch, line, feed, emit, advanceMs } = aShared();
    line.isUp = false;
    feed.answerMs = 10;
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(15);
    emit(1);
    line.isUp = true;
    line.ears?.changed();
    await advanceMs(20);
    expect(heard).toEqual([ready(1)]);
    await advanceMs(5000);
    emit(2);
    line.ears?.heard(emptyHints(), true);
    await advanceMs(25);
    expect(heard).toEqual([ready(1), ready(2)]);
  });

  test("does not count as heard what a note of the feed's end met while hearing ended", async () => {
    const { watch, line, feed, emit, advanceMs } = aShared();
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(0);
    emit(1);
    feed.answerMs = 10;
    await advanceMs(5005);
    line.isUp = false;
    line.ears?.changed();
    await advanceMs(15);
    expect(heard).toEqual([ready(1)]);
  });

  test("that could not look when hearing began again does not forget what it missed", async () => {
    const { watch, line, feed, emit, advanceMs } = aShared();
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(0);
    line.isUp = false;
    line.ears?.changed();
    await advanceMs(0);
    feed.isAway = true;
    emit(1);
    line.isUp = true;
    line.ears?.changed();
    await advanceMs(500);
    feed.isAway = false;
    await advanceMs(500);
    expect(heard).toEqual([ready(1)]);
    const { reads } = feed;
    await advanceMs(15_000);
    expect(feed.reads, "back to its slow notes").toBe(reads + 1);
  });

  test("begins a little in the past, so that nothing falls between a watcher's own look and its first", async () => {
    const { watch, emit, advanceMs } = aShared();
    for (let route = 1; route <= 60; route++) emit(route);
    const heard: Hint[] = [];
    const unwatch = watch.add((hint) => heard.push(hint));
    await advanceMs(20_000);
    expect(heard).toEqual([ready(...Array.from({ length: 50 }, (_, index) => index + 11))]);
    unwatch();
    heard.length = 0;
    emit(61);
    await advanceMs(20_000);
    expect(heard).toEqual([]);
  });

  test("looks at once when a message says that there is more, and no oftener than every 100 ms", async () => {
    const { watch, line, feed, emit, advanceMs } = aShared();
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(0);
    emit(7);
    for (let message = 0; message < 50; message++) line.ears?.heard(emptyHints(), true);
    await advanceMs(0);
    expect(heard).toEqual([ready(7)]);
    emit(8);
    line.ears?.heard(emptyHints(), true);
    await advanceMs(99);
    expect(heard).toEqual([ready(7)]);
    await advanceMs(1);
    expect(heard).toEqual([ready(7), ready(8)]);
    expect(feed.reads).toBe(4);
  });

  test("goes on after the store was away, and with the feed of a store that was emptied", async () => {
    const { watch, line, feed, records, emit, advanceMs } = aShared();
    line.isUp = false;
    const heard: Hint[] = [];
    watch.add((hint) => heard.push(hint));
    await advanceMs(0);
    feed.isAway = true;
    emit(1);
    await advanceMs(10_000);
    expect(heard).toEqual([]);
    feed.isAway = false;
    await advanceMs(1000);
    expect(heard).toEqual([ready(1)]);
    records.length = 0;
    await advanceMs(1000);
    emit(2);
    await advanceMs(1000);
    expect(heard).toEqual([ready(1), ready(2)]);
  });

  test("reads the routes of the feed as the store writes them", async () => {
    const { watch, emit, advanceMs } = aShared({ readRoute: (text) => Number(text) + 100 });
    const heard: Hint[] = [];
    emit(7);
    watch.add((hint) => heard.push(hint));
    await advanceMs(0);
    expect(heard).toEqual([ready(107)]);
  });

  test("skips the middle of what is too far behind: the newest may be what it was called for", async () => {
    const { watch, line, feed, emit, advanceMs } = aShared();
    const routes = new Set<number>();
    watch.add((hint) => hint.kind === "ready" && hint.routes.forEach((route) => routes.add(route)));
    await advanceMs(0);
    for (let route = 1; route <= 2500; route++) emit(route);
    line.ears?.heard(emptyHints(), true);
    await advanceMs(0);
    expect(routes.size).toBe(2200);
    expect(routes).toContain(2500);
    emit(9999);
    await advanceMs(100);
    expect(routes.size).toBe(2201);
    expect(feed.reads).toBe(15);
  });

  test("that nobody uses any more, or that is closed, does nothing more", async () => {
    const { watch, line, time, feed, advanceMs } = aShared();
    const unwatch = watch.add(() => undefined);
    await advanceMs(0);
    line.ears?.heard(emptyHints(), true);
    unwatch();
    unwatch();
    await advanceMs(0);
    expect(time.pending).toBe(0);
    watch.add(() => undefined);
    await watch.close();
    expect(line.isClosed).toBe(true);
    await advanceMs(0);
    expect(time.pending).toBe(0);
    const { reads } = feed;
    line.ears?.changed();
    line.ears?.heard(readyHints(1), true);
    await advanceMs(10_000);
    expect(feed.reads).toBe(reads);
  });
});
