import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  afterCancel,
  afterCrash,
  afterExpiry,
  afterFailure,
  afterReturn,
  afterSnooze,
  afterThrottled,
  afterTimeout,
  handBack,
  unstartedCrashesMax,
} from "./after-run.ts";
import type { Decision, EndedAttempt, Failure, Sources } from "./after-run.ts";
import type { EndReason } from "./end-reason.ts";
import { readAttemptLog } from "./attempt-log.ts";
import { eventCodes } from "../events/event-kind.ts";
import { createPolicyReader, writePolicy } from "./job-policy.ts";
import type { DecidedPolicy, JobPolicy } from "./job-policy.ts";
import { canMove, isTerminal } from "./job-state.ts";

const policyOf = (policy: JobPolicy = {}): DecidedPolicy => createPolicyReader()(writePolicy(policy));
const steady: JobPolicy = { attempts: 3, backoff: { kind: "fixed", delayMs: 500, jitter: "none" }, level: 2 };
const sources: Sources = { random: () => 0.5, strideMs: 1000, now: 77, worker: "w1" };
const boom: Failure = { outcome: "failed", error: { name: "Boom", message: "it broke" } };

function ended(given: Partial<EndedAttempt> & { with?: JobPolicy } = {}): EndedAttempt {
  const { with: policy, ...rest } = given;
  return {
    attempt: 1,
    policy: policyOf({ ...steady, ...policy }),
    attempts: null,
    cancelAsked: false,
    ...rest,
  };
}

const retried = (delayMs: number, event: string, countsAttempt = 1): object => ({
  to: "scheduled",
  event,
  due: { inMs: delayMs },
  rankBase: 2000,
  rankSlope: 1,
  countsAttempt,
  ttlMs: null,
});
const finished = (to: string, reason: string | null, keepMs: number | null = null): object => ({
  to,
  event: to,
  reason,
  result: null,
  keepMs,
});

test("a retry in LIFO order is ranked by its new due time, the last first", () => {
  const next = afterFailure(ended({ with: { order: "lifo" } }), boom, sources).next;
  expect(next).toMatchObject({ rankBase: 2 * 2 ** 42, rankSlope: -1 });
});

describe("after a throttle", () => {
  const error = { name: "Throttled", message: "too many" };
  const slack = { limit: "slack", cooldownMs: 4000, isClosed: true, error };
  const uses: JobPolicy = { limits: [["slack", 1]] };

  test("of one key a job of that key waits at it, and any other by its own clock", () => {
    const ofKey = (isOwnKey: boolean) => afterThrottled(ended(), { ...slack, isOwnKey }, sources).next.to;
    expect([ofKey(true), ofKey(false)]).toEqual(["ready", "scheduled"]);
  });

  test("a job of the closed limit waits at it with the rank it had, and any other by its own clock", () => {
    const atLimit = afterThrottled(ended({ with: uses }), slack, sources);
    expect(atLimit.next).toEqual({ to: "ready", event: "throttled", countsAttempt: 0 });
    expect(afterThrottled(ended(), slack, sources).next).toEqual(retried(4000, "throttled", 0));
    const unclosed = afterThrottled(ended({ with: uses }), { ...slack, isClosed: false }, sources);
    expect(unclosed.next).toEqual(retried(4000, "throttled", 0));
  });

  test("it is counted, over failed attempts too, until it came too often", () => {
    const policy = { ...uses, throttlesMax: 1 };
    const first = afterThrottled(ended({ with: policy }), slack, sources);
    const failed = afterFailure(ended({ with: policy, attempts: first.attempts }), boom, sources);
    expect(readAttemptLog(failed.attempts).throttled).toEqual({
      count: 1,
      limit: "slack",
      at: 77,
      worker: "w1",
    });
    const second = afterThrottled(ended({ with: policy, attempts: failed.attempts }), slack, sources);
    expect(second.next).toEqual(finished("failed", "throttles-exhausted"));
    expect(readAttemptLog(second.attempts)).toMatchObject({
      throttled: { count: 2 },
      entries: [{ outcome: "throttled", limit: "slack" }, {}, { outcome: "failed", error }],
    });
  });

  test("a job whose cancel was asked for ends", () => {
    const { next } = afterThrottled(ended({ cancelAsked: true }), slack, sources);
    expect(next).toEqual(finished("cancelled", "asked"));
  });
});

describe("after a failure", () => {
  test.each<[string, EndedAttempt, Failure, object]>([
    ["the first of three is tried again with backoff", ended(), boom, retried(500, "retry-scheduled")],
    ["the second too", ended({ attempt: 2 }), boom, retried(500, "retry-scheduled")],
    ["the last is final", ended({ attempt: 3 }), boom, finished("failed", "retries-exhausted")],
    [
      "one attempt means one",
      ended({ with: { attempts: 1 } }),
      boom,
      finished("failed", "retries-exhausted"),
    ],
    [
      "an unrecoverable one is final at once",
      ended(),
      { ...boom, final: "unrecoverable" },
      finished("failed", "unrecoverable"),
    ],
    [
      "an invalid input too",
      ended(),
      { ...boom, final: "invalid-input" },
      finished("failed", "invalid-input"),
    ],
    [
      "retryIf rules an error out",
      ended({ with: { retryIf: { never: ["Boom"] } } }),
      boom,
      finished("failed", "not-retryable"),
    ],
    [
      "retry-after is tried again when it said",
      ended(),
      { ...boom, retryInMs: 9 },
      retried(9, "retry-scheduled"),
    ],
    ["retry-after at once is at once", ended(), { ...boom, retryInMs: 0 }, retried(0, "retry-scheduled")],
    [
      "retry-after still counts",
      ended({ attempt: 3 }),
      { ...boom, retryInMs: 9 },
      finished("failed", "retries-exhausted"),
    ],
    [
      "retry-after is the handler's own word and stands above retryIf",
      ended({ with: { retryIf: { names: ["Other"] } } }),
      { ...boom, retryInMs: 9 },
      retried(9, "retry-scheduled"),
    ],
    ["a cancelled one ends cancelled", ended({ cancelAsked: true }), boom, finished("cancelled", "asked")],
    [
      "a cancel wins over the last failure",
      ended({ cancelAsked: true, attempt: 3 }),
      { ...boom, final: "unrecoverable" },
      finished("cancelled", "asked"),
    ],
    [
      "the dead letter is kept as the job's policy says",
      ended({ attempt: 3, with: { retention: { failedMs: 60 } } }),
      boom,
      finished("failed", "retries-exhausted", 60),
    ],
  ])("%s", (_, attempt, failure, next) => {
    expect(afterFailure(attempt, failure, sources).next).toEqual(next);
  });

  test("the attempt is written into the log with its error, time and worker", () => {
    const { attempts } = afterFailure(ended({ attempt: 2 }), { ...boom, ranUs: 1500 }, sources);
    expect(readAttemptLog(attempts).entries).toEqual([
      { attempt: 2, outcome: "failed", at: 77, worker: "w1", error: boom.error, ranUs: 1500 },
    ]);
  });
});

describe("after a timeout", () => {
  test("the attempt counts as failed and is tried again", () => {
    const decision = afterTimeout(ended({ with: { timeoutMs: 5000 } }), sources);
    expect(decision.next).toEqual(retried(500, "retry-scheduled"));
    const [entry] = readAttemptLog(decision.attempts).entries;
    expect(entry).toMatchObject({ outcome: "timed-out", error: { name: "AttemptTimeout" } });
    expect(entry?.error?.message).toContain("timeout of 5s");
  });

  test("the last attempt is final", () => {
    expect(afterTimeout(ended({ attempt: 3 }), sources).next).toEqual(
      finished("failed", "retries-exhausted"),
    );
  });
});

describe("after a crash", () => {
  test.each<[string, EndedAttempt, boolean, object]>([
    ["a started attempt is reclaimed with backoff", ended(), true, retried(500, "reclaimed")],
    ["an unstarted one is given back at once", ended(), false, retried(0, "reclaimed", 0)],
    [
      "an unstarted one is given back even on the last attempt",
      ended({ attempt: 3 }),
      false,
      retried(0, "reclaimed", 0),
    ],
    [
      "the last started attempt is a crash loop",
      ended({ attempt: 3 }),
      true,
      finished("failed", "crash-loop"),
    ],
    ["a cancelled one ends cancelled", ended({ cancelAsked: true }), true, finished("cancelled", "asked")],
    [
      "a cancelled one ends cancelled also when unstarted",
      ended({ cancelAsked: true }),
      false,
      finished("cancelled", "asked"),
    ],
  ])("%s", (_, attempt, started, next) => {
    expect(afterCrash(attempt, started, sources).next).toEqual(next);
  });

  test("the grace for unstarted crashes ends, so that a job that kills its worker at once ends in failed", () => {
    let attempt = 0;
    let counts = 1;
    let attempts: string | null = null;
    const events: string[] = [];
    for (let crash = 0; crash < 50; crash++) {
      attempt += counts;
      const decision = afterCrash(ended({ attempt, attempts }), false, sources);
      attempts = decision.attempts;
      events.push(decision.next.to);
      if (decision.next.to === "failed") break;
      counts = "countsAttempt" in decision.next ? decision.next.countsAttempt : 1;
    }
    expect(events.at(-1)).toBe("failed");
    expect(events.length).toBe(unstartedCrashesMax + 3);
  });

  test("the log distinguishes an unstarted crash from a started one", () => {
    const outcome = { attempt: 1, outcome: "lease-expired", at: 77, worker: "w1" };
    expect(readAttemptLog(afterCrash(ended(), true, sources).attempts).entries).toEqual([outcome]);
    expect(readAttemptLog(afterCrash(ended(), false, sources).attempts).entries).toEqual([
      { ...outcome, unstarted: true },
    ]);
  });
});

describe("the other ends", () => {
  const policy = policyOf({ ...steady, retention: { completedMs: 1, failedMs: 2, otherMs: 3 } });

  test("a return completes the job with its result", () => {
    expect(afterReturn(policy, "42")).toEqual({
      to: "completed",
      event: "completed",
      reason: null,
      result: "42",
      keepMs: 1,
    });
  });

  test("a result that is to go before its job carries its time, and no other does", () => {
    const kept = { completedMs: 1000 };
    expect(afterReturn(policyOf({ keepsResult: 999, retention: kept }), "42").keepResultMs).toBe(999);
    expect(afterReturn(policyOf({ keepsResult: 999 }), "42").keepResultMs).toBe(999);
    for (const keepsResult of [true, 1000, 2000])
      expect(afterReturn(policyOf({ keepsResult, retention: kept }), "42")).not.toHaveProperty(
        "keepResultMs",
      );
    expect(afterReturn(policyOf({ keepsResult: 999 }), null)).not.toHaveProperty("keepResultMs");
  });

  test("a snooze comes again later and gives the attempt back", () => {
    expect(afterSnooze(policy, 900, 1000)).toEqual(retried(900, "snoozed", 0));
  });

  test("a hand-back is ready at once at its old place and gives the attempt back", () => {
    expect(handBack).toEqual({ to: "ready", event: "handed-back", countsAttempt: 0 });
  });

  test("a cancel ends with its reason, a deadline and a time-to-live with theirs", () => {
    expect(afterCancel(policy, "operator")).toEqual(finished("cancelled", "operator", 3));
    expect(afterExpiry(policy, "deadline")).toEqual(finished("expired", "deadline", 3));
    expect(afterExpiry(policy, "ttl")).toEqual(finished("expired", "time-to-live", 3));
  });
});

describe("whatever ended the attempt", () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const ends = fc.constantFrom("failure", "final", "retry-after", "timeout", "crash", "unstarted crash");
  const attempts = fc.record({
    attempt: fc.integer({ min: 1, max: 12 }),
    attemptsMax: fc.integer({ min: 1, max: 10 }),
    cancelAsked: fc.boolean(),
    never: fc.boolean(),
    end: ends,
    value: random,
  });

  function decide(given: typeof attempts extends fc.Arbitrary<infer T> ? T : never): Decision {
    const retryIf = given.never ? { never: ["Boom"] } : {};
    const attempt = ended({
      attempt: given.attempt,
      cancelAsked: given.cancelAsked,
      with: { attempts: given.attemptsMax, retryIf },
    });
    const drawn = { ...sources, random: () => given.value };
    switch (given.end) {
      case "timeout":
        return afterTimeout(attempt, drawn);
      case "crash":
        return afterCrash(attempt, true, drawn);
      case "unstarted crash":
        return afterCrash(attempt, false, drawn);
      default: {
        const final: EndReason<"failed"> | undefined = given.end === "final" ? "unrecoverable" : undefined;
        return afterFailure(
          attempt,
          { ...boom, ...(final ? { final } : {}), ...(given.end === "retry-after" ? { retryInMs: 5 } : {}) },
          drawn,
        );
      }
    }
  }

  test("the next state is an arrow from running, and its event and log are known", () => {
    fc.assert(
      fc.property(attempts, (given) => {
        const { next, attempts: log } = decide(given);
        expect(canMove("running", next.to)).toBe(true);
        expect(Object.hasOwn(eventCodes, next.event)).toBe(true);
        expect(readAttemptLog(log).entries.length).toBe(1);
      }),
    );
  });

  test("a job whose cancel was asked is never tried again", () => {
    fc.assert(
      fc.property(attempts, (given) => {
        if (given.cancelAsked) expect(decide(given).next.to).toBe("cancelled");
      }),
    );
  });

  test("a counted retry is given only below the policy's attempts, and failed carries a reason", () => {
    fc.assert(
      fc.property(attempts, (given) => {
        const { next } = decide(given);
        if (next.to === "scheduled" && next.countsAttempt === 1)
          expect(given.attempt).toBeLessThan(given.attemptsMax);
        if (isTerminal(next.to) && "reason" in next) expect(next.reason).not.toBeNull();
      }),
    );
  });

  test("a job that always ends badly makes at most its attempts and then ends in failed", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.array(fc.boolean(), { minLength: 80, maxLength: 80 }),
        (attemptsMax, crashes) => {
          let attempt = 0;
          let counts = 1;
          let log: string | null = null;
          for (const isCrash of crashes) {
            attempt += counts;
            expect(attempt).toBeLessThanOrEqual(attemptsMax);
            const run = ended({ attempt, attempts: log, with: { attempts: attemptsMax } });
            const decision: Decision = isCrash
              ? afterCrash(run, false, sources)
              : afterFailure(run, boom, sources);
            if (decision.next.to === "failed") return;
            log = decision.attempts;
            counts = (decision.next as { countsAttempt: number }).countsAttempt;
          }
          throw new Error("the job never ended");
        },
      ),
    );
  });
});
