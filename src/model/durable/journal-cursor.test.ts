import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { branchPrefix } from "./call-key.ts";
import { differenceText, JournalCursor } from "./journal-cursor.ts";
import type { AskedCall } from "./journal-cursor.ts";
import { ownKey } from "./journal-entry.ts";
import type { CallKind, EntryBody, JournalEntry } from "./journal-entry.ts";

const entriesOf = (bodies: readonly EntryBody[]): JournalEntry[] =>
  bodies.map((body, at) => ({ number: at + 1, at: 1000 + at, key: `${at}`, body }));
const result = (call: string, as: CallKind = "run"): EntryBody => ({ kind: "result", call, as, value: call });
const signal: EntryBody = { kind: "signal", name: "paid", value: null };
const call = (key: string, kind: CallKind = "run"): AskedCall => ({ key, kind });

function cursorOver(bodies: readonly EntryBody[]): JournalCursor<AskedCall> {
  const cursor = new JournalCursor<AskedCall>(500);
  cursor.add(entriesOf(bodies));
  cursor.begins();
  return cursor;
}

describe("the entries of a journal", () => {
  test("are delivered in their order, whichever call is asked for first, and none before its call", () => {
    const names = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 8 });
    const both = names.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    );
    fc.assert(
      fc.property(both, ([recorded, asked]) => {
        const cursor = cursorOver(recorded.map((name) => result(name)));
        const delivered: string[] = [];
        for (const name of asked) {
          cursor.ask(call(name));
          for (let next = cursor.next(); next.kind === "deliver"; next = cursor.next()) {
            delivered.push(next.call?.key ?? "");
            cursor.delivered();
          }
          // All up to the first that was not asked for.
          const isAsked = (each: string): boolean => asked.indexOf(each) <= asked.indexOf(name);
          const first = recorded.findIndex((each) => !isAsked(each));
          expect(delivered).toEqual(first < 0 ? recorded : recorded.slice(0, first));
        }
        expect(cursor.isCaughtUp).toBe(true);
      }),
    );
  });

  test("are known once, however often they are read, and have no gaps", () => {
    const cursor = cursorOver([signal, signal]);
    cursor.add(entriesOf([signal, signal, signal]));
    expect(cursor.known).toBe(3);
    const [first] = entriesOf([signal]);
    expect(() => cursor.add([{ ...(first as JournalEntry), number: 5 }])).toThrow("no gaps");
  });

  test("that belong to a closed branch reach nobody, and nobody has to ask for them", () => {
    const lost = branchPrefix("race#1", "late");
    const cursor = cursorOver([result(`${lost}a#1`)]);
    expect(cursor.next().kind).toBe("unasked");
    cursor.close(lost);
    expect(cursor.next()).toMatchObject({ kind: "deliver", call: null });
    expect(cursor.leftBehind()).toBeNull();
  });
});

describe("a difference", () => {
  test("is known when a call of another kind is asked for", () => {
    const difference = cursorOver([signal, result("a#1")]).ask(call("a#1", "sleep"));
    expect(difference === null ? null : differenceText(difference)).toBe(
      'The code does not match the journal of the run: entry 2 is step.run "a#1", and the handler asks for step.sleep "a#1".',
    );
  });

  test("at the end of a handler is what it never asked for, not what was on its way", () => {
    const cursor = cursorOver([result("a#1"), signal, result("b#1")]);
    cursor.ask(call("a#1"));
    expect(cursor.leftBehind()).toMatchObject({ entry: 3 });
    cursor.ask(call("b#1"));
    expect(cursor.leftBehind()).toBeNull();
  });
});

describe("a patch", () => {
  test("is new if no earlier life has recorded anything after it, even if others have", () => {
    expect(cursorOver([signal]).patched("vat")).toEqual({ answer: true, isNew: true });
    expect(cursorOver([signal, result("a#1")]).patched("vat")).toEqual({ answer: false, isNew: true });
  });

  test("is new although this life has recorded something that is not delivered yet", () => {
    const cursor = cursorOver([]);
    cursor.add(entriesOf([result("a#1")]));
    expect(cursor.patched("vat").answer).toBe(true);
  });

  test("keeps its first answer", () => {
    const cursor = cursorOver([result("a#1")]);
    cursor.ask(call("a#1"));
    expect(cursor.patched("vat").answer).toBe(false);
    cursor.next();
    cursor.delivered();
    expect(cursor.patched("vat")).toEqual({ answer: false, isNew: false });
    const later = cursorOver([{ kind: "patched", name: "vat", answer: true }, result("a#1")]);
    expect(later.patched("vat")).toEqual({ answer: true, isNew: false });
  });
});

describe("a run that gave up on a failure and is retried", () => {
  const failure = { kind: "error", call: "b#1", as: "run", error: "{}" } as const;
  const gaveUp = { kind: "gave-up", call: "b#1", as: "run" } as const;
  const journal = [result("a#1"), failure, result("tell#1"), gaveUp];
  const deliver = (cursor: JournalCursor<AskedCall>): string[] => {
    const seen: string[] = [];
    for (let next = cursor.next(); next.kind === "deliver"; next = cursor.next()) {
      cursor.delivered();
      seen.push(`${next.entry.body.kind} ${next.call?.key}`);
    }
    return seen;
  };

  test("asks the call anew, under a key of its own, and tells its handler nothing of the failure", () => {
    const cursor = cursorOver(journal);
    for (const key of ["a#1", "b#1"]) cursor.ask(call(key));
    expect(deliver(cursor)).toEqual(["result a#1"]);
    expect(cursor.isCaughtUp).toBe(true);
    expect(cursor.lifeOf("b#1")).toBe(1);
    expect(ownKey(result("b#1"), cursor.lifeOf("b#1"))).toBe("end:b#1~1");
    expect(cursor.lifeOf("a#1")).toBe(0);
    expect(cursor.leftBehind()).toBeNull();
  });

  test("has what came after the failure only if its handler asks for it again", () => {
    const cursor = cursorOver([...journal, { ...failure, error: "again" }]);
    for (const key of ["a#1", "b#1"]) cursor.ask(call(key));
    expect(deliver(cursor)).toEqual(["result a#1", "error b#1"]);
    cursor.ask(call("tell#1"));
    expect(cursor.isCaughtUp).toBe(false);
    expect(deliver(cursor)).toEqual(["result tell#1"]);
    expect(cursor.isCaughtUp).toBe(true);
  });
});
