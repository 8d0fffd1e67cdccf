import { describe, expect, test } from "vitest";
import { emptyHints } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import { createVirtualPlatform } from "../../../testing/virtual-platform.ts";
import { openAnnouncer, readPayload, writePayload } from "./announce.ts";

function hintsOf(given: Partial<Hints>): Hints {
  return { ...emptyHints(), ...given };
}

describe("a payload of NOTIFY", () => {
  test("brings hints back as they were sent", () => {
    const hints = hintsOf({
      routes: new Set([1, 5]),
      dueInMs: 40,
      hasPromoted: true,
      finished: ["a", "b\0"],
      cancels: [{ id: "c", owner: "w" }],
      signals: [{ id: "s", owner: "w" }],
    });
    expect(readPayload(writePayload(hints, "me"))).toEqual({ by: "me", hints, hasMore: false });
  });

  test("that would be too large says that there is more, and keeps routes and clock", () => {
    for (const finished of [["x".repeat(8000)], Array.from({ length: 300 }, (_, at) => `job-${at}`)]) {
      const text = writePayload(
        hintsOf({ routes: new Set([2]), dueInMs: 7, hasDueDocs: true, finished }),
        "me",
      );
      expect(text.length).toBeLessThan(8000);
      expect(readPayload(text)).toEqual({
        by: "me",
        hints: hintsOf({ routes: new Set([2]), dueInMs: 7, hasDueDocs: true }),
        hasMore: true,
      });
    }
  });

  test("with more routes than fit says so", () => {
    const routes = new Set(Array.from({ length: 400 }, (_, at) => at + 1));
    expect(readPayload(writePayload(hintsOf({ routes }), "me")).hasMore).toBe(true);
  });

  test.each(["", "hello", "null", '{"r": 5}'])("of somebody else (%j) only asks for a look", (text) => {
    expect(readPayload(text)).toEqual({ by: null, hints: emptyHints(), hasMore: true });
  });
});

test("hints of many calls go out as one message after the first, and none after the end", async () => {
  const platform = createVirtualPlatform();
  const sent: string[] = [];
  const notify = async (payload: string): Promise<void> => void sent.push(payload);
  const announcer = openAnnouncer({ platform, sender: "me", notify });
  for (const route of [1, 2, 3, 2]) announcer.emit(hintsOf({ routes: new Set([route]) }));
  announcer.emit(emptyHints());
  await platform.time.advance(100_000);
  expect(sent.map((payload) => [...readPayload(payload).hints.routes])).toEqual([[1], [2, 3]]);
  await announcer.close();
  announcer.emit(hintsOf({ routes: new Set([4]) }));
  await platform.time.advance(100_000);
  expect(sent).toHaveLength(2);
});

test("the end of a short job does not wait behind the message of its submit, and a flood of ends does", async () => {
  const platform = createVirtualPlatform();
  const sent: string[] = [];
  const notify = async (payload: string): Promise<void> => void sent.push(payload);
  const announcer = openAnnouncer({ platform, sender: "me", notify });
  announcer.emit(hintsOf({ routes: new Set([1]) }));
  await platform.time.advance(1000);
  announcer.emit(hintsOf({ finished: ["a"] }));
  await platform.time.advance(1000);
  expect(sent).toHaveLength(2);
  for (let n = 0; n < 30; n++) {
    announcer.emit(hintsOf({ finished: [`b${n}`] }));
    await platform.time.advance(1000);
  }
  expect(sent.length).toBeLessThan(6);
  await platform.time.advance(100_000);
  expect(sent.flatMap((payload) => readPayload(payload).hints.finished)).toHaveLength(31);
});

test("an end that lets others start waits for at most ten milliseconds behind the last one", async () => {
  const platform = createVirtualPlatform();
  const sent: string[] = [];
  const notify = async (payload: string): Promise<void> => void sent.push(payload);
  const announcer = openAnnouncer({ platform, sender: "me", notify });
  announcer.emit(hintsOf({ routes: new Set([1]) }));
  for (let n = 1; n <= 10; n++) {
    await platform.time.advance(11_000);
    announcer.emit(hintsOf({ finished: [`a${n}`], routes: new Set([1]) }));
    expect(sent).toHaveLength(n);
    await platform.time.advance(1000);
    expect(sent).toHaveLength(n + 1);
  }
});

test("what was claimed before others got its hint is announced as taken; what became ready since is not", async () => {
  const platform = createVirtualPlatform();
  const sent: string[] = [];
  const notify = async (payload: string): Promise<void> => void sent.push(payload);
  const announcer = openAnnouncer({ platform, sender: "me", notify });
  announcer.emit(hintsOf({ hasPromoted: true }));
  await platform.time.advance(1000);
  announcer.emit(hintsOf({ routes: new Set([1, 2]) }));
  await platform.time.advance(1000);
  const claimUs = platform.monotonicUs();
  await platform.time.advance(1000);
  announcer.emit(hintsOf({ routes: new Set([2]) }));
  announcer.announceTaken([1, 2, 3], claimUs);
  await platform.time.advance(100_000);
  const { routes, taken } = readPayload(sent[1] as string).hints;
  expect([[...routes], [...taken]]).toEqual([[2], [1, 3]]);
});

test("what is still to be announced is sent by the end", async () => {
  const platform = createVirtualPlatform();
  const sent: string[] = [];
  const notify = async (payload: string): Promise<void> => void sent.push(payload);
  const announcer = openAnnouncer({ platform, sender: "me", notify });
  announcer.emit(hintsOf({ routes: new Set([1]) }));
  announcer.emit(hintsOf({ hasPromoted: true }));
  await announcer.close();
  expect(sent.map((payload) => readPayload(payload).hints.hasPromoted)).toEqual([false, true]);
});

test("a call that announces by itself takes the turn of a message, and gives it back when it did not", async () => {
  const platform = createVirtualPlatform();
  const sent: string[] = [];
  const notify = async (payload: string): Promise<void> => void sent.push(payload);
  const announcer = openAnnouncer({ platform, sender: "me", notify });
  const first = announcer.ride();
  expect(first?.by).toBe("me");
  expect(announcer.ride()).toBeNull();
  announcer.emit(hintsOf({ routes: new Set([1]) }));
  expect(sent).toHaveLength(0);
  first?.over(false);
  expect(sent).toHaveLength(1);

  await platform.time.advance(100_000);
  announcer.ride()?.over(true);
  expect(announcer.ride()).toBeNull();
  announcer.emit(hintsOf({ routes: new Set([2]) }));
  expect(sent).toHaveLength(1);
  await platform.time.advance(100_000);
  expect(sent).toHaveLength(2);
});
