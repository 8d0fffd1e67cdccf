import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stateCodes, terminalStates } from "../job/job-state.ts";
import { countEnd, newWaits, readWaits, writeWaits } from "./flow-waits.ts";

const count = fc.integer({ min: -100_000, max: 100_000 });
const ended = fc.array(fc.nat(100_000), { minLength: 5, maxLength: 5 });

describe("what a member waits for", () => {
  test("is read as it was written", () => {
    const waits = fc.record({
      need: count,
      slack: count,
      passed: fc.nat(),
      defers: fc.constantFrom<0 | 1>(0, 1),
      members: fc.option(fc.record({ total: fc.nat(), ended }), { nil: null }),
    });
    fc.assert(
      fc.property(waits, (given) => {
        expect(readWaits(writeWaits(given))).toEqual(given);
      }),
    );
  });

  test("begins with nothing arrived and nothing passed on", () => {
    expect(newWaits({ need: 2 })).toBe("2,0,0,0");
    expect(newWaits({ need: 3, slack: 1, defers: 1, total: 3 })).toBe("3,1,0,1,3,0,0,0,0,0");
  });

  test("counts each end of a flow's members under its own state, there and back", () => {
    fc.assert(
      fc.property(fc.constantFrom(...terminalStates), ended, (state, before) => {
        const members = { total: 9, ended: before };
        const once = countEnd(members, stateCodes[state], 1);
        expect(once?.ended[terminalStates.indexOf(state)]).toBe(
          (before[terminalStates.indexOf(state)] as number) + 1,
        );
        expect(countEnd(once, stateCodes[state], -1)).toEqual(members);
      }),
    );
    expect(countEnd(null, stateCodes.failed, 1)).toBeNull();
  });
});
