import { describe, expect, test } from "vitest";
import { eventCodes } from "../../model/events/event-kind.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import { emptyHints, handOut, hintDoc, hintDue, isEmpty } from "./hints.ts";
import type { Hints } from "./hints.ts";
import { hintEvents, packEvents, readEvents } from "../packing/packed-events.ts";
import type { Hint } from "../store.ts";

function bundle(
  fields: { kind: number; route?: number; state: number | ""; extra?: string },
  ...ids: string[]
) {
  const { kind, route = 1, state, extra = "" } = fields;
  return [kind, 4, route, state, 2, extra, ...ids].join("\x1f");
}

function hintsOf(...bundles: string[]): Hints {
  const hints = emptyHints();
  hintEvents(hints, bundles.join("\x1e"), 1000);
  return hints;
}

function handed(hints: Hints): Hint[] {
  const all: Hint[] = [];
  handOut(hints, [(hint) => all.push(hint)]);
  return all;
}

describe("packed events", () => {
  test("are read as one event per job, with texts as they were given", () => {
    const packed = [
      bundle({ kind: eventCodes.completed, state: stateCodes.completed, extra: "sdone" }, "a", "\x01001f"),
      bundle({ kind: eventCodes["cancel-asked"], state: "" }, "b"),
    ].join("\x1e");
    const emitted = { rev: 4, route: 1, attempt: 2 };
    expect(readEvents(packed)).toEqual([
      { ...emitted, kind: "completed", state: "completed", extra: "done", id: "a" },
      { ...emitted, kind: "completed", state: "completed", extra: "done", id: "\x1f" },
      { ...emitted, kind: "cancel-asked", state: null, extra: null, id: "b" },
    ]);
    expect(readEvents("")).toEqual([]);
  });

  test("come back as they were packed, whatever their texts are", () => {
    const emitted = { kind: eventCodes.failed, rev: 3, route: 9, state: stateCodes.failed, attempt: 1 };
    const ids = ["plain", "\x1f\x1e\x01", "\ud800", "ü"];
    const bundles = [
      { ...emitted, extra: "because\x1f", ids },
      { ...emitted, extra: -5, ids: ["b"] },
      { ...emitted, state: null, extra: null, ids: ["c"] },
    ];
    const back = readEvents(packEvents(bundles));
    expect(back.map(({ id }) => id)).toEqual([...ids, "b", "c"]);
    expect(back.map(({ extra }) => extra)).toEqual([...ids.map(() => "because\x1f"), -5, null]);
    expect(back.at(-1)).toEqual({
      kind: "failed",
      id: "c",
      rev: 3,
      route: 9,
      state: null,
      attempt: 1,
      extra: null,
    });
  });

  test("hint at ready routes once each, at a promotion, at the earliest clock, at what finished and at whose cancel was asked for", () => {
    const kind = eventCodes.submitted;
    const hints = hintsOf(
      bundle({ kind, route: 1, state: stateCodes.ready }, "a"),
      bundle({ kind, route: 2, state: stateCodes.ready }, "b", "c"),
      bundle({ kind: eventCodes.promoted, route: 1, state: stateCodes.ready }, "d"),
      bundle({ kind, state: stateCodes.scheduled, extra: "n1900" }, "e"),
      bundle({ kind, state: stateCodes.scheduled, extra: "n1400" }, "f"),
      bundle({ kind: eventCodes.failed, state: stateCodes.failed, extra: "sboom" }, "g", "h"),
      bundle({ kind: eventCodes["cancel-asked"], state: stateCodes.running, extra: "sw1" }, "i"),
      bundle({ kind: eventCodes["cancel-asked"], state: stateCodes.running, extra: "sw2" }, "j"),
      bundle({ kind: eventCodes["cancel-asked"], state: stateCodes.running, extra: "sw1" }, "k"),
      bundle({ kind: eventCodes.claimed, state: stateCodes.running, extra: "sw1" }, "l"),
    );
    expect(handed(hints)).toEqual([
      { kind: "ready", routes: [1, 2] },
      { kind: "promoted" },
      { kind: "due", inMs: 400 },
      { kind: "finished", ids: ["g", "h"] },
      { kind: "cancel", ids: ["i", "k"], owner: "w1" },
      { kind: "cancel", ids: ["j"], owner: "w2" },
    ]);
  });

  test("of kinds and states that a newer version added still hint at what is known of them", () => {
    expect(handed(hintsOf(bundle({ kind: 900, route: 3, state: stateCodes.ready }, "a")))).toEqual([
      { kind: "ready", routes: [3] },
    ]);
  });
});

describe("hints", () => {
  test("of a clock that has rung are due in a moment, and those of due documents at once, beside any clock", () => {
    const hints = emptyHints();
    expect(isEmpty(hints)).toBe(true);
    hintDue(hints, 20);
    hintDue(hints, -5);
    hintDue(hints, 10);
    expect(isEmpty(hints)).toBe(false);
    expect(handed(hints)).toEqual([{ kind: "due", inMs: 1 }]);
    hintDoc(hints, 30);
    hintDoc(hints, 0);
    expect(handed(hints)).toEqual([
      { kind: "due", inMs: 0 },
      { kind: "due", inMs: 1 },
    ]);
  });

  test("reach every listener, also behind one that throws", () => {
    const hints = emptyHints();
    hints.finished.push("a");
    const heard: Hint[] = [];
    const thrower = (): void => {
      throw new Error("a bad listener");
    };
    handOut(hints, [thrower, (hint) => heard.push(hint)]);
    expect(heard).toEqual([{ kind: "finished", ids: ["a"] }]);
  });
});
