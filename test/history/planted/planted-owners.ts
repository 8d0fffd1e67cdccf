/** Planted violations of acceptance and ownership: invariants 1 to 17. */
import type { Evidence } from "../history.ts";
import { dropEvent, enqueue, twoAttempts, withSnapshot } from "./planted.ts";
import type { Planted } from "./planted.ts";

export const plantedOwners: readonly Planted[] = [
  [1, "an acknowledged job is gone", (s) => s.live("a"), withSnapshot(() => ({ jobs: [], stateCounts: [] }))],
  [
    1,
    "the application was given an id that nobody has",
    (s) => void s.operations.push(enqueue({ seen: "ok", inputs: ['"a"'], got: ["a"] })),
  ],
  [2, "a job is there that nobody enqueued", (s) => (s.live("a"), s.operations.shift())],
  [
    3,
    "a job runs although its only enqueue failed",
    (s) => {
      s.live("a");
      Object.assign(s.operations[0] as object, { seen: "failed", answer: null, order: null });
    },
  ],
  [
    3,
    "the application was told that nothing happened",
    (s) => (s.live("a"), s.operations.push(enqueue({ seen: "failed", inputs: ['"a"'], got: null }))),
  ],
  [
    4,
    "a repeat makes the job a second time",
    (s) => (
      s.live("a"),
      s.emit({ kind: "submitted", id: "a", rev: 4, state: "ready", attempt: 0, extra: null })
    ),
  ],
  [
    5,
    "half of a batch is there",
    (s) => {
      s.submit({ id: "a" }, { id: "b" });
      s.jobs.delete("b");
      dropEvent(s, 0);
    },
  ],
  [
    7,
    "a job is kept that was deleted",
    (s) => (
      s.live("a"),
      s.live("b"),
      s.emit({ kind: "deleted", id: "a", rev: 4, state: null, attempt: 1, extra: null })
    ),
  ],
  [8, "a job waits for ever", (s) => s.submit({ id: "a" })],
  [
    9,
    "a fence is given twice",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.settle("a", "retry");
      s.job("a").fence = 0;
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    10,
    "two workers hold one fence",
    (s) => {
      s.submit({ id: "a" });
      const call = s.claim("a");
      s.operations.push({ ...call, request: { ...(call.request as object), owner: "w2" } } as never);
      s.settle("a", "completed");
    },
  ],
  [
    10,
    "a handler is run twice under one lease",
    (s) => {
      s.live("a");
      s.effects.push({ ...(s.effects[0] as Evidence["effects"][number]) });
    },
  ],
  [
    11,
    "a settle is applied twice",
    (s) => {
      s.live("a");
      s.operations.push({ ...(s.operations.at(-1) as Evidence["operations"][number]) });
    },
  ],
  [
    11,
    "a settle is called already applied, and never was",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.settle("a", "completed", { answer: "already" });
      s.change("a", "completed", "completed");
    },
  ],
  [
    12,
    "a progress write of a past attempt is accepted",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.settle("a", "retry");
      s.claim("a");
      s.call("recordIfLeased", [{ id: "a", seq: 1, fence: 1, progress: "1" }], ["ok"]);
      s.settle("a", "completed");
    },
  ],
  [
    12,
    "a settle of a past life is applied to the next one",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      s.change("a", "reclaimed", "ready");
      s.remove("a");
      s.submit({ id: "a" });
      s.claim("a");
      s.job("a").seq = 1;
      s.settle("a", "completed");
      s.job("a").seq = 2;
    },
  ],
  [
    12,
    "a progress write is accepted between a revoke and the next claim",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.revoke("a");
      s.now += 10;
      s.call("recordIfLeased", [{ id: "a", seq: 1, fence: 1, progress: "1" }], ["ok"]);
      s.claim("a", { counts: 0 });
      s.settle("a", "completed");
    },
  ],
  [
    13,
    "a lease is taken away before its end",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 500;
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    13,
    "an extend that was acknowledged does not count",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 900;
      s.extend("a");
      s.now += 200;
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    14,
    "a late heartbeat brings a reclaimed lease back",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      s.change("a", "reclaimed", "ready");
      s.now += 1;
      s.extend("a");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    14,
    "a revoked lease is extended",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.revoke("a");
      s.now += 1;
      s.extend("a");
      s.claim("a", { counts: 0 });
      s.settle("a", "completed");
    },
  ],
  [15, "a finished job is reclaimed", (s) => (s.live("a"), s.change("a", "reclaimed", "scheduled", 5000))],
  [
    16,
    "a lease is lost although nothing was wrong",
    (s) => {
      s.isFaultFree = true;
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    17,
    "a process takes a job from its own handler",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      const next = { to: "scheduled", event: "reclaimed" };
      s.call(
        "changeIf",
        [{ id: "a", cases: [{ guard: { states: ["running"], fence: 1 }, next }] }],
        [{ kind: "ok", applied: 0 }],
      );
      s.change("a", "reclaimed", "ready");
      s.now += 10;
      s.settle("a", "completed", { answer: "stale" });
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
];
