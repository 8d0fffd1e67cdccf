import { describe, expect, test } from "vitest";
import { foreverMs, limitGateKey, queueGateKey } from "./gate.ts";
import { heldBack } from "./held.ts";
import type { GateAsked } from "./held.ts";

const now = 10_000;
const open: GateAsked = {
  ...{ key: limitGateKey("slack"), weight: 1, cap: null, rate: null, tatUs: 0, closedUntil: null, held: 0 },
};
const mail = { ...open, key: queueGateKey("mail") };

describe("a ready job", () => {
  test("is not held where all its gates let it pass", () => {
    expect(heldBack([], now)).toBeNull();
    expect(
      heldBack(
        [
          { ...mail, closedUntil: now },
          { ...open, cap: 2, held: 1 },
        ],
        now,
      ),
    ).toBeNull();
  });

  test("is held by a full limit, whose next permit nobody can foretell", () => {
    expect(heldBack([mail, { ...open, cap: 5, held: 4, weight: 2 }], now)).toEqual({
      ...{ by: "limit", name: "slack", use: { held: 4, cap: 5 }, until: null },
      why: 'The limit "slack" is full: 4 of 5 are held.',
    });
  });

  test("is held by a rate until its next token", () => {
    const rate = { stepUs: 2_000_000, burstUs: 2_000_000 };
    const gate = { ...open, rate, tatUs: (now + 1500) * 1000 };
    expect(heldBack([gate], now)).toMatchObject({ by: "limit", use: null, until: now + 1500 });
    expect(heldBack([gate], now)?.why).toBe('The limit "slack" has no token left by its rate for 1.5s.');
  });

  test("is held by the pause of its queue before anything that is full", () => {
    const full = { ...open, cap: 1, held: 1 };
    expect(heldBack([full, { ...mail, closedUntil: foreverMs }], now)).toEqual({
      ...{ by: "pause", name: "mail", use: null, until: null },
      why: 'The queue "mail" is paused until somebody resumes it.',
    });
    expect(heldBack([{ ...mail, closedUntil: now + 60_000 }], now)).toMatchObject({
      ...{ by: "pause", until: now + 60_000, why: 'The queue "mail" is paused for 1m.' },
    });
  });

  test("is held by a throttle, and by the bounds of its queue", () => {
    expect(heldBack([{ ...open, closedUntil: now + 2000 }], now)).toMatchObject({
      ...{ by: "limit", until: now + 2000, why: 'The limit "slack" cools down after a throttle, for 2s.' },
    });
    expect(heldBack([{ ...mail, cap: 1, held: 1 }], now)).toMatchObject({ by: "queue", name: "mail" });
  });

  test("that is heavier than an edited limit is named so", () => {
    expect(heldBack([{ ...open, cap: 2, weight: 3 }], now)?.why).toMatch(/waits until that is raised/);
    const rate = { stepUs: 1000, burstUs: 2000 };
    expect(heldBack([{ ...open, rate, weight: 3 }], now)?.why).toMatch(/burst smaller than the job's weight/);
  });
});
