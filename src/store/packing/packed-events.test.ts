/** Packed events: what a store writes once for a whole bundle is read back with each of its events. */
import { describe, expect, it } from "vitest";
import { eventCodes } from "../../model/events/event-kind.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import { notedMark, packEvents, readEvents, unreportedMark } from "./packed-events.ts";
import { fieldEnd } from "./packed-text.ts";

const ended = {
  kind: eventCodes.completed,
  rev: 3,
  route: 7,
  state: stateCodes.completed,
  attempt: 1,
  extra: null,
};

describe("Packed events", () => {
  it("of one bundle keep the notes of their jobs", () => {
    const packed = packEvents([{ ...ended, ids: ["a", "b"], notes: ["1 5 2", "!1 6 2"] }]);
    expect(readEvents(packed).map(({ id, note }) => [id, note])).toEqual([
      ["a", "1 5 2"],
      ["b", "!1 6 2"],
    ]);
  });

  it("whose bundle is marked as unreported have an unreported start each, with a log and without one", () => {
    const plain = packEvents([{ ...ended, ids: ["a", "b"], notes: ["1 5 2", "x"] }]);
    const [code = "", ...rest] = plain.split(fieldEnd);
    expect(code.endsWith(notedMark)).toBe(true);
    const unreported = [`${code}${unreportedMark}`, ...rest.slice(0, -1), ""].join(fieldEnd);
    expect(readEvents(unreported).map(({ kind, id, note }) => [kind, id, note])).toEqual([
      ["completed", "a", "!1 5 2"],
      ["completed", "b", "!"],
    ]);
  });
});
