// Which ends of an attempt leave a job holding its group.
import { describe, expect, test } from "vitest";
import { afterCrash, afterFailure, afterNoHandler, afterSnooze, afterThrottled } from "./after-run.ts";
import type { EndedAttempt, Failure, Sources } from "./after-run.ts";
import { createPolicyReader, writePolicy } from "./job-policy.ts";
import type { JobPolicy } from "./job-policy.ts";

const sources: Sources = { random: () => 0.5, strideMs: 1000, now: 77, worker: "w1" };
const boom: Failure = { outcome: "failed", error: { name: "Boom", message: "it broke" } };

function ended({ attempt = 1, ...given }: { attempt?: number; with?: JobPolicy } = {}): EndedAttempt {
  const policy = createPolicyReader()(writePolicy({ attempts: 3, ...given.with }));
  return { attempt, policy, attempts: null, cancelAsked: false };
}

describe("a job that holds its group", () => {
  const holds = ended({ with: { holdsGroup: true } });

  test("keeps its lane after a failure, a crash, a snooze and a throttle, and not at its end", () => {
    const throttled = { limit: "slack", cooldownMs: 5, isClosed: false, error: boom.error };
    const waits = [
      afterFailure(holds, boom, sources).next,
      afterCrash(holds, true, sources).next,
      afterCrash(holds, false, sources).next,
      afterSnooze(holds.policy, 5, 1000),
      afterThrottled(holds, throttled, sources).next,
    ];
    for (const next of waits) expect(next).toMatchObject({ to: "scheduled", keepsLane: true });
    expect(afterFailure({ ...holds, attempt: 3 }, boom, sources).next).not.toHaveProperty("keepsLane");
    expect(afterFailure(ended(), boom, sources).next).not.toHaveProperty("keepsLane");
  });

  test("keeps its lane once it has failed for good where its policy says so, and no retention takes it", () => {
    const strict = ended({ attempt: 3, with: { holdsGroupFailed: true, retention: { failedMs: 0 } } });
    const held = { to: "failed", keepsLane: true, keepMs: null };
    expect(afterFailure(strict, boom, sources).next).toMatchObject(held);
    expect(afterCrash(strict, true, sources).next).toMatchObject(held);
    expect(afterFailure({ ...strict, cancelAsked: true }, boom, sources).next).not.toHaveProperty(
      "keepsLane",
    );
    expect(afterNoHandler(strict.policy)).toMatchObject({ to: "failed", keepMs: 0 });
    expect(afterNoHandler(strict.policy)).not.toHaveProperty("keepsLane");
  });
});
