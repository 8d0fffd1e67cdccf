import { expect, test } from "vitest";
import { durableMarks } from "./durable-marks.ts";
import { readEntry, writeEntry } from "./entry-text.ts";
import type { EntryBody } from "./journal-entry.ts";

const written = (body: EntryBody) => writeEntry({ key: "k", body });

test("an entry comes back as it was written", () => {
  const body: EntryBody = { kind: "result", call: "a#1", as: "run", value: '"\u0000ü"' };
  const { body: text } = written(body);
  expect(readEntry({ number: 3, at: 5, key: "k", body: text })).toEqual({ number: 3, at: 5, key: "k", body });
});

test("a signal is unread with its size until an entry takes, refuses or counts it", () => {
  const signal = written({ kind: "signal", name: "paid", value: "1" });
  expect(signal.unread).toBe(signal.body.length);
  expect(written({ kind: "arrived", call: "?paid#1", as: "wait", signal: 4 }).reads).toEqual([4]);
  expect(written({ kind: "refused", signal: 4, why: "no" }).reads).toEqual([4]);
  const decided = {
    kind: "decided",
    call: "?ok#1",
    as: "approval",
    signals: [2, 5],
    approved: true,
  } as const;
  expect(written(decided).reads).toEqual([2, 5]);
});

test("undos, endings and children set the marks that guards and ends read", () => {
  const undone = written({ kind: "result", call: "a#1", as: "run", value: null, hasUndo: true });
  expect(undone.marks).toBe(durableMarks.hasUndo);
  expect(written({ kind: "ending", state: "failed", reason: "deadline" }).marks).toBe(durableMarks.isEnding);
  expect(written({ kind: "opened", call: "ship#1", as: "invoke" }).marks).toBe(durableMarks.hasChildren);
  expect(written({ kind: "opened", call: "?paid#1", as: "wait", signal: "paid" }).marks).toBeUndefined();
});
