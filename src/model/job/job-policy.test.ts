import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createPolicyReader, defaultRetention, keepMsOf, writePolicy } from "./job-policy.ts";
import type { JobPolicy } from "./job-policy.ts";
import { terminalStates } from "./job-state.ts";
import { defaultBackoff } from "./retry-policy.ts";

const wholeMs = fc.nat(1_000_000);
const policies: fc.Arbitrary<JobPolicy> = fc.record(
  {
    level: fc.integer({ min: -1023, max: 1023 }),
    attempts: fc.integer({ min: 1, max: 1000 }),
    backoff: fc.constantFrom(defaultBackoff, { kind: "custom" as const, name: "__proto__" }),
    retryIf: fc.record({ names: fc.array(fc.string()), never: fc.array(fc.string()) }, { requiredKeys: [] }),
    timeoutMs: wholeMs,
    ttlMs: wholeMs,
    retention: fc.record({ completedMs: wholeMs, failedMs: wholeMs, otherMs: wholeMs }, { requiredKeys: [] }),
    keepsResult: fc.oneof(fc.boolean(), wholeMs),
  },
  { requiredKeys: [] },
);

describe("policies", () => {
  test("the empty policy costs no text and means the engine's defaults", () => {
    expect(writePolicy({})).toBeNull();
    expect(createPolicyReader()(null)).toEqual({
      isReadable: true,
      level: 0,
      order: "fifo",
      holdsGroup: false,
      holdsGroupFailed: false,
      attempts: 10,
      backoff: defaultBackoff,
      retryIf: undefined,
      timeoutMs: null,
      ttlMs: null,
      keepsResult: true,
      retention: {},
      retriesInvalidInput: false,
      throttlesMax: null,
      limits: [],
      budgets: [],
      redact: [],
      isPermit: false,
      durable: null,
    });
  });

  test("what a job carries wins over the code's defaults, and these over the engine's", () => {
    const read = createPolicyReader({ attempts: 7, timeoutMs: 500 });
    expect(read(null)).toMatchObject({ attempts: 7, timeoutMs: 500, level: 0 });
    expect(read(writePolicy({ attempts: 1, level: 5 }))).toMatchObject({
      attempts: 1,
      timeoutMs: 500,
      level: 5,
    });
  });

  test("a default left undefined in code is no default", () => {
    expect(createPolicyReader({ attempts: undefined as never })(null).attempts).toBe(10);
  });

  test("every policy reads back from its text as it was written", () => {
    fc.assert(
      fc.property(policies, policies, (policy, defaults) => {
        const read = createPolicyReader(defaults);
        const retention = { ...defaults.retention, ...policy.retention };
        const expected = { ...createPolicyReader()(null), ...defaults, ...policy, retention };
        expect(read(writePolicy(policy))).toEqual(expected);
        expect(read(writePolicy(policy))).toEqual(expected);
      }),
    );
  });

  test("reading more different texts than the reader remembers changes no answer", () => {
    const read = createPolicyReader();
    const wrong: unknown[] = [];
    for (let round = 0; round < 2; round++) {
      for (let attempts = 1; attempts <= 1000; attempts++) {
        for (const level of [0, 1]) {
          const policy = read(writePolicy({ attempts, level }));
          if (policy.attempts !== attempts || policy.level !== level) wrong.push(policy);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  test("a finished job is kept as its own policy says per outcome, else as the queue says", () => {
    const read = createPolicyReader();
    const own = read(writePolicy({ retention: { completedMs: 0, failedMs: 10, otherMs: 20 } }));
    expect(terminalStates.map((state) => keepMsOf(own, state))).toEqual([0, 10, 20, 20, 20]);
    expect(terminalStates.map((state) => keepMsOf(read(null), state))).toEqual([
      null,
      null,
      null,
      null,
      null,
    ]);
    expect(defaultRetention).toEqual({
      completedMs: 604_800_000,
      failedMs: 2_592_000_000,
      otherMs: 604_800_000,
    });
  });
});
