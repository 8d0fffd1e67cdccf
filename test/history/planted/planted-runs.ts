/** Planted violations of durable runs: invariants 59 to 64, 66 and 68. */
import type { EntryBody } from "../../../src/model/durable/journal-entry.ts";
import { aChange, askCancel, finish } from "../../support/builders.ts";
import type { Entry } from "../../../src/store/records.ts";
import type { StoreCall } from "../history.ts";
import type { Scribe } from "../scribe.ts";
import { withSnapshot } from "./planted.ts";
import type { Planted, Write } from "./planted.ts";

const result = (call: string, hasUndo = false): EntryBody => ({
  ...{ kind: "result", call, as: "run", value: null },
  ...(hasUndo ? { hasUndo: true as const } : {}),
});
const undone = (call: string): EntryBody => ({ kind: "undone", call, as: "run" });
const opened = (call: string): EntryBody => ({ kind: "opened", call, as: "wait" });
const signal: EntryBody = { kind: "signal", name: "paid", value: "1" };
const arrived = (call: string, number: number): EntryBody => ({
  ...{ kind: "arrived", call, as: "wait", signal: number },
});
const ending: EntryBody = { kind: "ending", state: "cancelled", reason: "because" };

function begin(s: Scribe, id = "a"): void {
  s.isFaultFree = true;
  s.submit({ id, policy: JSON.stringify({ durable: ["paid"] }) });
  s.now += 10;
  s.claim(id);
}

/** A step, a wait, and the signal that ends the wait. */
function waitsForSignal(s: Scribe): void {
  begin(s);
  s.step("a", "reserve#1");
  s.now += 5;
  s.record("a", result("reserve#1"), opened("?paid#1"));
  s.suspend("a");
  s.now += 10;
  s.send("a", "signal:1", signal);
  s.now += 10;
  s.claim("a");
  s.record("a", arrived("?paid#1", 3));
}

function sleeps(s: Scribe, forMs: number, wakesAfterMs: number): void {
  begin(s);
  s.suspend("a", forMs);
  s.now += wakesAfterMs;
  s.wake("a");
  s.claim("a");
  s.settle("a", "completed");
}

/** Two steps with an undo; what the run does until it is cancelled is left to the caller. */
function endsBadly(s: Scribe, ...undos: readonly EntryBody[]): void {
  begin(s);
  s.record("a", result("one#1", true), result("two#1", true));
  s.send("a", "ending", ending);
  s.record("a", ...undos);
  s.settle("a", "cancelled", { reason: "because" });
}

/** A run and the flow that it has invoked, which ends so much later. */
function invokes(s: Scribe, laterMs: number): void {
  begin(s);
  const invokedBy = { run: "a", round: 0, call: "child#1" };
  s.submit({ id: "child", meta: JSON.stringify({ flow: { part: {}, invokedBy } }) });
  s.settle("a", "completed");
  s.now += laterMs;
  s.change("child", "cancelled", "cancelled", "run-ended");
}

function lastChange(s: Scribe): { request: unknown; answer: unknown } {
  return s.operations.findLast(({ kind }) => kind === "changeIf") as StoreCall;
}

const swapped = withSnapshot(({ journals }) => ({
  journals: journals.map(({ id, entries }) => ({ id, entries: entries.toReversed() as readonly Entry[] })),
}));

export const trueRuns: Record<string, Write> = {
  "a run that waits for a signal and ends": (s) => (waitsForSignal(s), s.settle("a", "completed")),
  "a run that sleeps and is woken in time": (s) => sleeps(s, 100, 1000),
  "a run whose step runs again, because its record was never acknowledged": (s) => {
    begin(s);
    s.step("a", "reserve#1");
    s.now += 5;
    s.step("a", "reserve#1");
    s.record("a", result("reserve#1"));
    s.settle("a", "completed");
  },
  "a step that the worker before runs again, which has not heard that its lease was revoked": (s) => {
    begin(s);
    const { fence } = s.job("a");
    s.revoke("a");
    s.claim("a");
    s.record("a", result("reserve#1"));
    s.now += 5;
    s.step("a", "reserve#1", fence);
    s.settle("a", "completed");
  },
  "a signal that is sent twice, and answered as known": (s) => {
    begin(s);
    s.send("a", "signal:1", signal);
    const { request } = lastChange(s);
    s.call("changeIf", request, [{ kind: "repeated", state: "running", rev: 2 }]);
    s.settle("a", "completed");
  },
  "a run that is cancelled and has undone its steps, last first": (s) =>
    endsBadly(s, undone("two#1"), undone("one#1")),
  "a run that undoes its step after its cancel was asked for": (s) => {
    begin(s);
    s.record("a", result("one#1", true));
    s.call(
      "changeIf",
      [aChange("a", ["running"], askCancel)],
      [{ kind: "ok", applied: 0, from: "running", state: "running", rev: 3 }],
    );
    s.change("a", "cancel-asked", "running", "w1");
    s.send("a", "ending", ending);
    s.suspend("a", 100);
    s.now += 200;
    s.wake("a");
    s.claim("a");
    s.record("a", undone("one#1"));
    s.settle("a", "cancelled", { reason: "because" });
  },
  "a run whose child is cancelled a second after its end": (s) => invokes(s, 1000),
  "an answer by a token, and a second one that is refused": (s) => {
    begin(s);
    s.send("a", "answer:?paid#1:ann", signal);
    s.answerByToken("a", "answer:?paid#1:ann");
    s.answerByToken("a", "answer:?paid#1:ann", { said: "refused" });
    s.settle("a", "completed");
  },
  "a suspended run that is cancelled": (s) => {
    begin(s);
    s.suspend("a");
    const cancel = aChange("a", ["suspended"], finish("cancelled"));
    s.call("changeIf", [cancel], [{ kind: "ok", applied: 0, from: "suspended", state: "cancelled", rev: 4 }]);
    s.change("a", "cancelled", "cancelled", "because");
  },
};

export const plantedRuns: readonly Planted[] = [
  [
    59,
    "a step runs again after its result was acknowledged",
    (s) => {
      waitsForSignal(s);
      s.now += 5;
      s.step("a", "reserve#1");
      s.settle("a", "completed");
    },
  ],
  [
    60,
    "a run is suspended although a signal came after it had looked",
    (s) => {
      begin(s);
      s.record("a", opened("?paid#1"));
      s.send("a", "signal:1", signal);
      s.suspend("a", null, 1);
    },
  ],
  [
    60,
    "a signal leaves a suspended run suspended",
    (s) => {
      begin(s);
      s.suspend("a");
      s.send("a", "signal:1", signal, { resumes: false });
    },
  ],
  [
    60,
    "a run sleeps on an entry that nobody is known to have appended",
    (s) => {
      begin(s);
      s.suspend("a");
      s.journal("a").push({ number: 1, at: s.now, key: "signal:1", body: JSON.stringify(signal) });
      s.operations.forEach((operation) => (operation.order = null));
    },
  ],
  [
    61,
    "a signal is appended twice",
    (s) => {
      begin(s);
      s.send("a", "signal:1", signal);
      s.send("a", "signal:1", signal);
      s.settle("a", "completed");
    },
  ],
  [
    61,
    "a signal is answered as known that was never appended",
    (s) => {
      begin(s);
      s.send("a", "signal:1", signal);
      s.journal("a").pop();
      Object.assign(lastChange(s), { answer: [{ kind: "repeated", state: "running", rev: 2 }] });
      s.settle("a", "completed");
    },
  ],
  [
    61,
    "an acknowledged entry is not in the journal",
    (s) => {
      waitsForSignal(s);
      s.journal("a").pop();
      s.settle("a", "completed");
    },
  ],
  [61, "a journal is read in another order", (s) => (waitsForSignal(s), s.settle("a", "completed")), swapped],
  [
    61,
    "two waits take one signal",
    (s) => {
      waitsForSignal(s);
      s.record("a", arrived("?paid#2", 3));
      s.settle("a", "completed");
    },
  ],
  [
    62,
    "a suspended job has a lease",
    (s) => (begin(s), s.suspend("a"), (s.job("a").leaseEndsAt = s.now + 500)),
  ],
  [62, "a lease is extended after its job was suspended", (s) => (begin(s), s.suspend("a"), s.extend("a"))],
  [
    12,
    "an entry is appended under an old fence",
    (s) => {
      begin(s);
      s.settle("a", "retry");
      s.claim("a");
      const { seq } = s.job("a");
      const write = { id: "a", seq, fence: 1, entries: [] };
      s.call("recordIfLeased", [write], [{ kind: "appended", last: 0, at: s.now }]);
      s.settle("a", "completed");
    },
  ],
  [63, "a run wakes before its time", (s) => sleeps(s, 100, 99)],
  [63, "a run wakes much later than its time", (s) => sleeps(s, 100, 20_000)],
  [63, "a run is never woken", (s) => (begin(s), s.suspend("a", 100), (s.now += 20_000))],
  [64, "what a run has invoked outlives it", (s) => invokes(s, 9000)],
  [
    64,
    "what a run has invoked is not ended at all",
    (s) => {
      invokes(s, 1000);
      s.feed.pop();
      Object.assign(s.job("child"), { state: "ready", rev: 1, endedAt: null });
      s.now += 20_000;
    },
  ],
  [
    66,
    "a token answers twice",
    (s) => {
      begin(s);
      s.answerByToken("a", "answer:?paid#1:ann");
      s.answerByToken("a", "answer:?paid#1:ann");
      s.settle("a", "completed");
    },
  ],
  ...(["expiresAt", "keyEndsAt"] as const).map((end): Planted => [
    66,
    `a token answers after its ${end}`,
    (s) => {
      begin(s);
      s.now += 500;
      s.send("a", "answer:?paid#1:ann", signal);
      s.answerByToken("a", "answer:?paid#1:ann", { [end]: s.now - 100 });
      s.settle("a", "completed");
    },
  ]),
  [
    68,
    "steps are undone in the order of their records",
    (s) => endsBadly(s, undone("one#1"), undone("two#1")),
  ],
  [68, "a step is not undone", (s) => endsBadly(s, undone("two#1"))],
  [
    68,
    "a step is undone although the run has completed",
    (s) => {
      begin(s);
      s.record("a", result("one#1", true), undone("one#1"));
      s.settle("a", "completed");
    },
  ],
  [
    45,
    "a run is suspended and resumed although its cancel was asked for",
    (s) => {
      begin(s);
      s.call(
        "changeIf",
        [aChange("a", ["running"], askCancel)],
        [{ kind: "ok", applied: 0, from: "running", state: "running", rev: 3 }],
      );
      s.change("a", "cancel-asked", "running", "w1");
      s.suspend("a");
      s.send("a", "signal:1", signal);
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
];
