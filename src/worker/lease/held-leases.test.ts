/** The table of held leases is begun anew as attempts come and go: nothing that is held may leave it. */
import { expect, test } from "vitest";
import { createPolicyReader } from "../../model/job/job-policy.ts";
import { Attempt } from "../run/attempt.ts";
import type { AttemptOrigin } from "../run/attempt.ts";
import { Leases } from "./leases.ts";

const policy = createPolicyReader()(null);
// Settling and aborting are never asked here.
const origin = { owner: "w", leasedUs: 0, leaseMs: 30_000 } as AttemptOrigin;

function attemptOf(seq: number, fence = 1): Attempt {
  const times = { createdAt: 0, dueAt: 0, claimedAt: 0, deadlineAt: null, durable: 0 };
  const texts = { input: "null", policy: null, meta: null, attempts: null };
  const job = { id: `job-${seq}`, seq, fence, route: 1, rev: 2, attempt: 1, ...texts, ...times };
  return new Attempt(job, policy, origin);
}

test("attempts that stay are held through tens of thousands that come and go", () => {
  let ended = 0;
  const leases = new Leases(() => (ended += 1));
  const staying = Array.from({ length: 700 }, (_, seq) => attemptOf(seq));
  for (const attempt of staying) leases.add(attempt, undefined);
  for (let seq = 1000; seq < 31_000; seq++) {
    const attempt = attemptOf(seq);
    leases.add(attempt, undefined);
    leases.end(attempt);
  }
  expect(leases.size).toBe(staying.length);
  expect([...leases.values()]).toEqual(staying);
  expect(ended).toBe(30_000);

  const again = attemptOf(5, 2);
  leases.add(again, leases.get("job-5"));
  expect(leases.holds({ id: "job-5", fence: 2 })).toBe(true);
  expect(leases.holds({ id: "job-5", fence: 1 })).toBe(false);
  for (const attempt of [...leases.values()]) leases.end(attempt);
  expect(leases.size).toBe(0);
});
