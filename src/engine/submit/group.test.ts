import { describe, expect, test } from "vitest";
import { laneStepOf } from "../../model/routing/lane.ts";
import { routeNumber } from "../../model/routing/route.ts";
import { readGroup } from "./group.ts";
import { planLane } from "./lane-plan.ts";
import { limit, readLimits } from "../limits/limit-definition.ts";

const coded = (code: string) => expect.objectContaining({ code });
const read = (given: unknown) => readGroup(given, "group");
const tenantOf = (input: { tenant: string }): string => input.tenant;
const lane = (group: unknown, limits: readonly unknown[] = [], input: unknown = { tenant: "t1" }) =>
  planLane({
    queue: "mail",
    name: "send",
    requires: [],
    gates: [],
    group: group === null ? null : read(group),
    limits: readLimits(limits, "limits"),
  })?.(input) ?? null;

describe("a group", () => {
  test("takes turns where nothing bounds it, and goes by rank where something does", () => {
    expect(read(tenantOf)).toMatchObject({
      concurrency: null,
      weight: 1,
      holdsOnRetry: false,
      holdsOnFailure: false,
    });
    expect(read({ key: "k", concurrency: 5 })).toMatchObject({ weight: null, holdsOnRetry: false });
    expect(read({ key: "k", concurrency: 5, fair: true, weight: 3 })).toMatchObject({ weight: 3 });
  });

  test("of one at once holds its key while a job of it waits to be tried again, unless it says otherwise", () => {
    expect(read({ key: "k", concurrency: 1 })).toMatchObject({ holdsOnRetry: true });
    expect(read({ key: "k", concurrency: 1, holdsOnRetry: false })).toMatchObject({ holdsOnRetry: false });
    expect(read({ key: "k", concurrency: 2, holdsOnRetry: true })).toMatchObject({ holdsOnRetry: true });
  });

  test.each([
    ["no key", { concurrency: 1 }, "invalid-name"],
    ["a key that is no name", { key: "a\nb" }, "invalid-name"],
    ["a cap of 0", { key: "k", concurrency: 0 }, "invalid-option"],
    ["a weight of 0", { key: "k", weight: 0 }, "invalid-option"],
    ["a weight above 1000", { key: "k", weight: 1001 }, "invalid-option"],
    ["a weight without turns", { key: "k", concurrency: 1, weight: 2 }, "invalid-option"],
    ["neither turns nor a cap", { key: "k", fair: false }, "invalid-option"],
    ["a hold without a cap", { key: "k", holdsOnRetry: true }, "invalid-option"],
    ["a hold of failed jobs without a cap", { key: "k", holdsOnFailure: true }, "invalid-option"],
    ["a hold that is no flag", { key: "k", concurrency: 1, holdsOnFailure: "yes" }, "invalid-option"],
    ["an unknown option", { key: "k", cap: 1 }, "invalid-option"],
    ["a number", 5, "invalid-option"],
  ])("with %s is refused", (_what, given, code) => {
    expect(() => read(given)).toThrow(coded(code));
  });
});

describe("the lane of a job", () => {
  const api = limit("api", { perKey: { concurrency: 2 } });
  const disk = limit("disk", { concurrency: 9, perKey: { concurrency: 3 } });

  test("is that of its group over all names, apart for turns and for ranks", () => {
    expect(lane(tenantOf)).toEqual({ laneKey: "t:mail\tt1", laneStep: laneStepOf(1), laneGates: null });
    expect(lane({ key: tenantOf, concurrency: 1 })).toEqual({
      laneKey: "r:mail\tt1",
      laneStep: null,
      laneGates: ["1:1:g:mail\tt1"],
    });
    const weighed = { key: tenantOf, weight: ({ size }: { size: number }) => size };
    expect(lane(weighed, [], { tenant: "t1", size: 4 })).toMatchObject({ laneStep: laneStepOf(4) });
  });

  test("without a group is that of all jobs of its route that take from the same keys", () => {
    const route = routeNumber("mail", "send", [], [], "rank");
    expect(lane(null)).toBeNull();
    expect(lane(null, [api.use({ key: tenantOf, weight: 2 })])).toEqual({
      laneKey: `k:${route}\t2::l:api\tt1`,
      laneStep: null,
      laneGates: ["2::l:api\tt1"],
    });
    const both = [disk.use({ key: "d" }), api.use({ key: tenantOf })];
    const two = lane(null, both);
    expect(two?.laneGates).toEqual(["1::l:api\tt1", "1::l:disk\td"]);
    expect(two?.laneKey).toBe(lane(null, both)?.laneKey);
    expect(two?.laneKey).not.toBe(lane(null, both, { tenant: "t2" })?.laneKey);
  });

  test("names the gate of its group and those of its keys", () => {
    const uses = [api.use({ key: tenantOf })];
    expect(lane({ key: tenantOf, concurrency: 5 }, uses)?.laneGates).toEqual([
      "1:5:g:mail\tt1",
      "1::l:api\tt1",
    ]);
  });

  test("is refused where a function throws, or says no name or no weight", () => {
    const throws = (): never => {
      throw new Error("no tenant");
    };
    expect(() => lane(throws)).toThrow(coded("invalid-option"));
    expect(() => lane(null, [api.use({ key: throws })])).toThrow(coded("invalid-option"));
    for (const key of ["", "a\tb", "x".repeat(256), undefined, 5])
      expect(() => lane(() => key)).toThrow(coded("invalid-name"));
    expect(() => lane({ key: "k", weight: () => 0 })).toThrow(coded("invalid-option"));
  });
});

describe("the use of a limit", () => {
  test("by no key is refused where nothing but keys is bounded, and by any key is allowed", () => {
    const keysOnly = limit("a", { perKey: { concurrency: 2 } });
    expect(() => readLimits([keysOnly], "limits")).toThrow(coded("invalid-option"));
    expect(readLimits([{ limit: keysOnly, key: "k" }], "limits")).toEqual([keysOnly.use({ key: "k" })]);
    expect(() => readLimits([{ limit: keysOnly, keey: "k" }], "limits")).toThrow(coded("invalid-option"));
    expect(readLimits([keysOnly.use({ key: "k" }), limit("b").use({ key: "k" })], "limits")).toHaveLength(2);
  });

  test("by a weight that no key lets pass is refused", () => {
    const both = limit("a", { concurrency: 9, perKey: { concurrency: 2 } });
    expect(() => both.use({ key: "k", weight: 3 })).toThrow(coded("invalid-option"));
    expect(both.use({ weight: 3 }).weight).toBe(3);
    expect(() => both.use({ key: "a\nb" })).toThrow(coded("invalid-name"));
  });
});
