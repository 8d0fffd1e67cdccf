import { expect, test } from "vitest";
import type { WorkerView } from "../../client/workers/workers.ts";
import { topFrame, topQueues } from "./top-frame.ts";
import type { TopLook } from "./top-frame.ts";

const worker = (given: Partial<WorkerView> = {}): WorkerView => ({
  ...{ id: "w-1", label: "w", host: "h", processId: 1, mode: "working", queues: ["mail"], names: ["send"] },
  ...{ capabilities: [], slots: { mail: 4 }, totals: {}, running: 2, abandoned: 0 },
  ...{ memoryBytes: 64 * 1024 * 1024, loopDelayMs: 3, startedAt: new Date(0), seenAt: new Date(9000) },
  jobs: [{ id: "a", queue: "mail", name: "send", attempt: 1, since: new Date(5000) }],
  ...given,
});
const before: TopLook = { counts: { mail: { completed: 100 } }, workers: [worker()], now: 8000 };
const look: TopLook = {
  counts: { mail: { ready: 7, running: 2, completed: 150, failed: 3 }, lost: { ready: 1 } },
  workers: [worker(), worker({ id: "w-2", mode: "quiet", slots: { mail: 2 }, loopDelayMs: 800 })],
  now: 10_000,
};

test("a frame shows queues with rates, workers and trouble", () => {
  const text = topFrame(before, look, 100).join("\n");
  expect(text).toContain("2 workers, 2 running, 25 completed per second");
  expect(text).toMatch(/^mail +0 +7 +0 +2 +6 +25 +1\.5 +3$/m);
  expect(text).toMatch(/^w-1 +working +mail 4 +2 +5s +64 MiB +3ms +1s ago$/m);
  expect(text).toContain("! 1 ready in lost, which no live worker serves");
  expect(text).toContain("! w-2 is quiet");
  expect(text).toContain("! the event loop of w-2 was 800ms late");
});

test("the first frame has no rates, and a store without anything makes a frame, too", () => {
  expect(topQueues(null, look).map(({ completedPerSecond }) => completedPerSecond)).toEqual([0, 0]);
  const empty: TopLook = { counts: {}, workers: [], now: 0 };
  expect(topFrame(null, empty, 100).join("\n")).toMatch(/^0 workers, 0 running[^]+no trouble[^]+QUEUE/);
});

test("what does not fit into a small terminal is counted", () => {
  const counts = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`q${at}`, { completed: 1 }]));
  const frame = topFrame(null, { ...look, counts }, 12);
  expect(frame.length).toBeLessThanOrEqual(14);
  expect(frame.join("\n")).toMatch(/… \d+ more/);
});

test("no name can move the cursor", () => {
  const frame = topFrame(null, { ...look, counts: { "\u001b[2Jx": { ready: 1 } } }, 100).join("\n");
  expect(frame).not.toContain("\u001b");
});
