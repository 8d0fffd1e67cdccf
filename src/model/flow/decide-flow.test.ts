import { describe, expect, test } from "vitest";
import { createPolicyReader } from "../job/job-policy.ts";
import { terminalStates } from "../job/job-state.ts";
import type { TerminalState } from "../job/job-state.ts";
import type { FailureMode, Part } from "./graph.ts";
import { countEnds, decideFlow, liveMembers } from "./decide-flow.ts";
import type { FlowStanding } from "./decide-flow.ts";
import type { Waits } from "./flow-waits.ts";

const policy = createPolicyReader()(null);

function standing(
  part: Part,
  total: number,
  ends: Partial<Record<TerminalState, number>>,
  given: Partial<Waits & Pick<FlowStanding, "cancelAsked" | "hasNoList">> = {},
): FlowStanding {
  const { cancelAsked = false, hasNoList = false, need = 0, slack = 0 } = given;
  const members = { total, ended: terminalStates.map((state) => ends[state] ?? 0) };
  const waits: Waits = { need, slack, passed: 0, defers: 1, members };
  return { part, waits, policy, cancelAsked, cancelReason: null, hasNoList };
}
const whole = (failureMode: FailureMode): Part => ({ kind: "flow", failureMode });
const group: Part = { kind: "group", tolerate: 1 };
const race = (first = 1, cancelsRest = true): Part => ({ kind: "race", first, cancelsRest });
const [completed, failed, cancelled, skipped] = (
  ["completed", "failed", "cancelled", "skipped"] as const
).map((to) => ({ end: expect.objectContaining({ to }) as unknown }));
const open = { end: null, cancelsRest: false };

describe("a flow", () => {
  test("is open until all its nodes have ended, whatever has failed", () => {
    for (const failureMode of ["isolate", "collect", "fail-fast"] as const)
      expect(decideFlow(standing(whole(failureMode), 3, { completed: 1, failed: 1 }))).toEqual(open);
  });

  test("has failed where a node failed or expired, unless failures are collected", () => {
    expect(decideFlow(standing(whole("isolate"), 2, { completed: 2 }))).toMatchObject(completed!);
    for (const end of ["failed", "expired"] as const) {
      expect(decideFlow(standing(whole("isolate"), 2, { completed: 1, [end]: 1 }))).toMatchObject(failed!);
      expect(decideFlow(standing(whole("collect"), 2, { completed: 1, [end]: 1 }))).toMatchObject(completed!);
    }
    expect(decideFlow(standing(whole("isolate"), 2, { completed: 1, cancelled: 1 }))).toMatchObject(
      completed!,
    );
  });

  test("that fails fast has its rest cancelled, and has failed although that closed it", () => {
    const lost = { slack: -1, cancelAsked: true };
    expect(decideFlow(standing(whole("fail-fast"), 3, { failed: 1 }, { slack: -1 }))).toEqual({
      end: null,
      cancelsRest: true,
    });
    expect(decideFlow(standing(whole("fail-fast"), 3, { failed: 1, cancelled: 2 }, lost))).toMatchObject(
      failed!,
    );
  });

  test("is cancelled where that was asked for", () => {
    const asked = { cancelAsked: true };
    expect(decideFlow(standing(whole("isolate"), 2, { cancelled: 1 }, asked))).toEqual(open);
    expect(decideFlow(standing(whole("isolate"), 2, { cancelled: 2 }, asked))).toMatchObject(cancelled!);
    expect(decideFlow(standing(whole("isolate"), 2, { failed: 1, completed: 1 }, asked))).toMatchObject(
      cancelled!,
    );
  });

  test("is skipped where all its nodes were", () => {
    expect(decideFlow(standing(whole("isolate"), 2, { skipped: 2 }))).toMatchObject(skipped!);
    expect(decideFlow(standing(whole("isolate"), 2, { skipped: 1, completed: 1 }))).toMatchObject(completed!);
  });
});

describe("a group", () => {
  test("has completed with as many failures as it tolerates, and with one more its rest is cancelled", () => {
    expect(decideFlow(standing(group, 3, { completed: 2, failed: 1 }))).toMatchObject(completed!);
    expect(decideFlow(standing(group, 3, { failed: 2 }, { slack: -1 }))).toEqual({
      end: null,
      cancelsRest: true,
    });
    expect(decideFlow(standing(group, 3, { failed: 2, cancelled: 1 }, { slack: -2 }))).toMatchObject(failed!);
  });

  test("without its list has failed", () => {
    expect(decideFlow(standing(group, 1, { failed: 1 }, { hasNoList: true }))).toMatchObject({
      end: { to: "failed", reason: "no-list" },
    });
  });
});

describe("a race", () => {
  test("is won at once, and its rest cancelled where that is asked for", () => {
    const won = standing(race(), 3, { completed: 1 }, { need: 0, slack: 2 });
    expect(decideFlow(won)).toMatchObject({ ...completed!, cancelsRest: true });
    expect(decideFlow({ ...won, part: race(1, false) })).toMatchObject({ ...completed!, cancelsRest: false });
    expect(decideFlow({ ...won, cancelAsked: true })).toMatchObject(completed!);
  });

  test("is lost as soon as too few are left", () => {
    expect(decideFlow(standing(race(2), 3, { failed: 1 }, { need: 2, slack: 0 }))).toEqual(open);
    expect(decideFlow(standing(race(2), 3, { failed: 2 }, { need: 2, slack: -1 }))).toMatchObject(failed!);
    expect(
      decideFlow(standing(race(2), 3, { cancelled: 2 }, { need: 2, slack: -1, cancelAsked: true })),
    ).toMatchObject(cancelled!);
  });

  test("whose nodes are skipped one by one is skipped, also before the last of them is", () => {
    expect(decideFlow(standing(race(2), 3, { skipped: 2 }, { need: 2, slack: -1 }))).toMatchObject(skipped!);
    expect(decideFlow(standing(race(), 3, { skipped: 3 }, { need: 1, slack: -1 }))).toMatchObject(skipped!);
    expect(decideFlow(standing(race(2), 3, { skipped: 1, failed: 1 }, { need: 2, slack: -1 }))).toMatchObject(
      failed!,
    );
  });
});

test("the counts of a flow are those of its ends, and the rest lives", () => {
  const { waits } = standing(group, 7, { completed: 2, failed: 1, skipped: 3 });
  expect(countEnds(waits.members)).toEqual({ completed: 2, failed: 1, cancelled: 0, expired: 0, skipped: 3 });
  expect(liveMembers(waits)).toBe(1);
});
