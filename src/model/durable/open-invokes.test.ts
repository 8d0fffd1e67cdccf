import { expect, test } from "vitest";
import { JournalCursor } from "./journal-cursor.ts";
import type { EntryBody, JournalEntry } from "./journal-entry.ts";
import { openInvokes } from "./open-invokes.ts";

const opened = (call: string): EntryBody => ({ kind: "opened", call, as: "invoke" });
const child = (call: string, more: { life?: number; isAnew?: true } = {}): EntryBody => ({
  ...{ kind: "child", call, state: "cancelled", value: null },
  ...more,
});
const journal = (...bodies: readonly EntryBody[]): JournalEntry[] =>
  bodies.map((body, at) => ({ number: at + 1, at: 0, key: `${at}`, body }));

test.each<[what: string, bodies: EntryBody[], open: object[]]>([
  ["that has not ended", [opened("a#1"), opened("b#1"), child("b#1")], [{ call: "a#1", life: 0 }]],
  [
    "that has ended with its run and was not invoked again",
    [opened("a#1"), child("a#1", { isAnew: true })],
    [],
  ],
  [
    "that was invoked again, whatever the first one still says",
    [opened("a#1"), child("a#1", { isAnew: true }), opened("a#1"), child("a#1")],
    [{ call: "a#1", life: 1 }],
  ],
  [
    "that was given up with its run and invoked again",
    [opened("a#1"), child("a#1"), { kind: "gave-up", call: "a#1", as: "invoke" }, opened("a#1")],
    [{ call: "a#1", life: 1 }],
  ],
  [
    "but not that of a branch that has lost its race",
    [opened("race#1.x/a#1"), { kind: "raced", call: "race#1", as: "race", winner: "y" }],
    [],
  ],
  [
    "but none of a run that is to end",
    [opened("a#1"), { kind: "ending", state: "failed", reason: "deadline" }],
    [],
  ],
])("an invoke is open %s", (_, bodies, open) => {
  expect(openInvokes(journal(...bodies))).toEqual(open);
});

test("the end of a child that was given up is passed over, and that of the next one is delivered", () => {
  const cursor = new JournalCursor(0);
  cursor.add(
    journal(
      ...[
        opened("a#1"),
        child("a#1", { isAnew: true }),
        child("a#1"),
        opened("a#1"),
        child("a#1", { life: 1 }),
      ],
    ),
  );
  expect(cursor.ask({ key: "a#1", kind: "invoke" })).toBeNull();
  const delivered: number[] = [];
  for (let next = cursor.next(); next.kind === "deliver"; next = cursor.next()) {
    delivered.push(next.entry.number);
    cursor.delivered();
  }
  expect(delivered).toEqual([2, 4, 5]);
  expect(cursor.lifeOf("a#1")).toBe(1);
});
