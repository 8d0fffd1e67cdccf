import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { limitGateKey } from "../limits/gate.ts";
import { createIdMinter } from "../job/job-id.ts";
import { groupGateKey, groupLane, keyedGate, keysLane, writeKeyUse } from "./lane.ts";
import { askedPartition, createPlacement, partitionOfUnit, gatherJobs, textIn } from "./placement.ts";
import type { UnitJob } from "./placement.ts";

const placement = createPlacement(16);
const mint = createIdMinter({ now: () => 1, random: () => 0.5 }, { partitions: 16 });
const minted = (partition: number, key: string | null = null): UnitJob => ({
  id: mint(partition),
  digest: null,
  unique: key === null ? null : { key },
});
const given = (id: string, key: string | null = null): UnitJob => ({ ...minted(0, key), id, digest: "d" });
const conflict = expect.objectContaining({ code: "placement-conflict" });

describe("a place", () => {
  test("of a minted id is the one it carries, of other names their hash", () => {
    for (const partition of [0, 7, 15]) expect(placement.ofId(mint(partition))).toBe(partition);
    // Stored data depends on these.
    expect(["order-17", "", "ü", "🙂", "a:b"].map((name) => placement.ofName(name))).toEqual([
      9, 11, 0, 11, 0,
    ]);
  });

  test("depends on the text in braces alone, where there is some", () => {
    const at = placement.ofName("17");
    for (const name of ["order-{17}", "{17}", "q4:mail:pay-{17}", "{17}{18}", "a{17}b"]) {
      expect(placement.ofName(name)).toBe(at);
      expect(placement.ofId(name)).toBe(at);
    }
    for (const name of ["{}17", "17{", "}17{", "{17"])
      expect(placement.ofName(name)).toBe(placement.ofName(name));
    expect(
      new Set(["{}a", "{}b", "{}c", "{}d", "{}e"].map((name) => placement.ofName(name))).size,
    ).toBeGreaterThan(1);
  });

  test("is one of all, and names that count up spread over them evenly", () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 1024 }), (name, partitions) => {
        const some = createPlacement(partitions);
        expect(some.ofName(name)).toBeLessThan(partitions);
        expect(some.ofId(name)).toBeLessThan(partitions);
      }),
    );
    const counts = new Map<number, number>();
    for (let n = 0; n < 16_000; n++) {
      const at = placement.ofId(`order-${n}`);
      counts.set(at, (counts.get(at) ?? 0) + 1);
    }
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150);
    expect(counts.size).toBe(16);
  });
});

describe("a unit", () => {
  test("goes where a given id, a key or a document asks it to, and its minted ids with it", () => {
    const at = placement.ofName("17");
    const units = [
      { jobs: [minted(1), given("{17}")] },
      { jobs: [minted(1), minted(2, "{17}")] },
      { jobs: [minted(1), minted(2)], docs: [{ id: "total-{17}" }] },
      { jobs: [given("a{17}", "b{17}")], docs: [{ id: "{17}" }] },
    ];
    for (const unit of units) {
      const jobs = gatherJobs(placement, unit, mint);
      expect(partitionOfUnit(placement, { ...unit, jobs })).toBe(at);
      expect(jobs.map(({ id }) => placement.ofId(id))).toEqual(jobs.map(() => at));
    }
  });

  test("that asks for nothing goes where its first job is, and stays whole", () => {
    const jobs = [minted(3), minted(9), minted(3)];
    const gathered = gatherJobs(placement, { jobs }, mint);
    expect(gathered.map(({ id }) => placement.ofId(id))).toEqual([3, 3, 3]);
    expect([gathered[0], gathered[2]]).toEqual([jobs[0], jobs[2]]);
    expect(new Set(gathered.map(({ id }) => id)).size).toBe(3);
  });

  test("that happens with a job goes where that job is, or is refused", () => {
    const [job] = gatherJobs(placement, { jobs: [minted(3)] }, mint, 5);
    expect(placement.ofId(job!.id)).toBe(5);
    const elsewhere = (placement.ofName("17") + 1) % 16;
    expect(() => gatherJobs(placement, { jobs: [minted(3, "{17}")] }, mint, elsewhere)).toThrow(conflict);
    expect(() => gatherJobs(placement, { jobs: [], docs: [{ id: "{17}" }] }, mint, elsewhere)).toThrow(
      conflict,
    );
  });

  test("whose parts lie in different places is refused with both names", () => {
    expect(() => gatherJobs(placement, { jobs: [given("order-1", "{17}")] }, mint)).toThrow(
      /"\{17\}".*"order-1"/,
    );
    expect(() => partitionOfUnit(placement, { jobs: [minted(1), minted(2)] })).toThrow(conflict);
    expect(partitionOfUnit(placement, {})).toBeNull();
  });
});

describe("a job with a lane", () => {
  const names = Array.from({ length: 200 }, (_, n) => `k${n}`);
  const slack = limitGateKey("slack");
  const laned = (lane: Partial<UnitJob>, partition = 3): UnitJob => ({ ...minted(partition), ...lane });
  const fifo = (key: string, given: Partial<UnitJob> = {}): UnitJob =>
    laned({
      laneKey: groupLane("mail", key, "rank"),
      laneGates: [writeKeyUse({ key: keyedGate(groupGateKey("mail"), key), weight: 1, cap: 1 })],
      ...given,
    });
  const fair = (key: string, given: Partial<UnitJob> = {}): UnitJob =>
    laned({ laneKey: groupLane("mail", key, "turn"), ...given });
  const ofKey = (key: string, given: Partial<UnitJob> = {}): UnitJob =>
    laned({
      laneKey: keysLane(1, key),
      laneGates: [writeKeyUse({ key: keyedGate(slack, key), weight: 1, cap: null })],
      ...given,
    });
  const place = (...jobs: readonly UnitJob[]): number => {
    const gathered = gatherJobs(placement, { jobs }, mint);
    const [first] = gathered;
    expect(partitionOfUnit(placement, { jobs: gathered })).toBe(placement.ofId(first!.id));
    return placement.ofId(first!.id);
  };
  const away = names.find((name) => placement.ofName(name) !== placement.ofGates)!;

  test("lies where its group or its key says, and both of one name lie together", () => {
    for (const name of names) {
      const at = placement.ofName(name);
      expect([place(fifo(name)), place(ofKey(name)), place(fair(name))]).toEqual([at, at, at]);
      expect(place(fifo(name, { laneGates: [...fifo(name).laneGates!, ...ofKey(name).laneGates!] }))).toBe(
        at,
      );
    }
  });

  test("lies with the limits on its route, where its own keys of these and its turns lie too", () => {
    const gates = [{ key: slack }];
    expect(place(ofKey(away, { gates }))).toBe(placement.ofGates);
    expect(place(fair(away, { gates }))).toBe(placement.ofGates);
  });

  test("is refused where its group, its keys and its limits lie apart", () => {
    const other = names.find((name) => placement.ofName(name) !== placement.ofName(away))!;
    const gates = [{ key: limitGateKey("other") }];
    expect(() => place(fifo(away, { gates }))).toThrow(conflict);
    expect(() => place(ofKey(away, { gates }))).toThrow(conflict);
    const apart = fifo(away, { laneGates: [...fifo(away).laneGates!, ...ofKey(other).laneGates!] });
    expect(() => place(apart)).toThrow(conflict);
    expect(() => place(fifo(away), fifo(other))).toThrow(conflict);
    expect(() => place(fifo(away, { unique: { key: other } }))).toThrow(conflict);
  });

  test("of groups that only take turns may go together with others, and where something else decides", () => {
    const other = names.find((name) => placement.ofName(name) !== placement.ofName(away))!;
    expect(place(fair(away), fair(other))).toBe(placement.ofName(away));
    expect(place(fair(away), ofKey(other))).toBe(placement.ofName(other));
    expect(place(fair(away, { unique: { key: other } }))).toBe(placement.ofName(other));
  });
});

test("a text in braces brings a name to any partition", () => {
  for (let partition = 0; partition < 16; partition++)
    expect(placement.ofName(`{${textIn(placement, partition)}}\x1fnightly {x}`)).toBe(partition);
});

test("a unit asks for the place of its gates and keys, not for that of a minted id", () => {
  expect(askedPartition(placement, { jobs: [minted(7)] })).toBeNull();
  expect(askedPartition(placement, { jobs: [minted(7, "k")] })).toBe(placement.ofName("k"));
  const gated = { ...minted(7), gates: [{ key: "limit" }] };
  expect(askedPartition(placement, { jobs: [gated] })).toBe(placement.ofGates);
});
