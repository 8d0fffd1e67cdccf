/** What comes out: the fields of a JSON line, medians, and the ratios of the table. */
import { describe, expect, it } from "vitest";
import { medianFigures, percentile } from "./figures.ts";
import type { Result } from "./figures.ts";
import { memoryTable, resultLine, resultTable } from "./report.ts";

const drained: Result = {
  system: "millrace",
  version: "1.0.0",
  store: "sqlite",
  work: "drain",
  concurrency: 100,
  processes: 1,
  jobs: 100_000,
  backlog: null,
  durability: "strict",
  rate: 30_000.4,
};
const peer: Result = {
  ...drained,
  system: "plainjob",
  concurrency: null,
  durability: "relaxed",
  rate: 10_000,
};

describe("a result", () => {
  it("is one JSON line of exactly the agreed fields", () => {
    const line = resultLine(peer);
    expect(line).not.toContain("\n");
    expect(JSON.parse(line)).toEqual({
      system: "plainjob",
      version: "1.0.0",
      store: "sqlite",
      work: "drain",
      concurrency: null,
      processes: 1,
      jobs: 100_000,
      backlog: null,
      durability: "relaxed",
      rate: 10_000,
    });
  });

  it("keeps three digits of small figures", () => {
    const { rate: _, ...shared } = drained;
    expect(resultLine({ ...shared, work: "latency", p50Ms: 0.12345, p99Ms: 1.5 })).toContain(
      '"p50Ms":0.123,"p99Ms":1.5',
    );
  });
});

describe("the table", () => {
  it("compares with the peer's fastest entry and with the empty store", () => {
    const slowPeer: Result = { ...peer, processes: 2, rate: 5000 };
    const crowded: Result = { ...drained, backlog: "1000000 waiting", rate: 27_000 };
    const [, row, , , crowdedRow] = resultTable([drained, peer, slowPeer, crowded]).split("\n");
    expect(row).toMatch(/3\.00 +-$/);
    expect(crowdedRow).toMatch(/- +0\.90$/);
  });

  it("compares a drain under a condition with the plain one, and says the condition", () => {
    const strained: Result = { ...drained, note: "keeps no finished jobs", rate: 15_000 };
    const mode: Result = { ...peer, note: "local-queue mode", rate: 20_000 };
    const [, plainRow, strainedRow] = resultTable([drained, strained, peer, mode]).split("\n");
    expect(plainRow).toMatch(/1\.50 +-$/);
    expect(strainedRow).toMatch(/millrace 1\.0\.0, keeps no finished jobs .* 0\.75 +0\.50$/);
  });

  it("compares a drain of special jobs with that of plain ones, and with the peer's of its kind", () => {
    const special: Result = { ...drained, work: "unique", rate: 20_000 };
    const plain: Result = { ...special, note: "plain jobs", rate: 25_000 };
    const specialPeer: Result = { ...special, system: "bullmq", rate: 5000 };
    const plainPeer: Result = { ...plain, system: "bullmq", rate: 10_000 };
    const [, plainRow, , row, peerRow] = resultTable([plain, plainPeer, special, specialPeer]).split("\n");
    expect(plainRow).toMatch(/millrace 1\.0\.0, plain jobs .* 2\.50 +-$/);
    expect(row).toMatch(/4\.00 +0\.80$/);
    expect(peerRow).toMatch(/- +0\.50$/);
  });

  it("compares delays beside a flood with those on an idle store", () => {
    const { rate: _, ...shared } = drained;
    const idle: Result = { ...shared, work: "delayed", p50Ms: 2, p99Ms: 4 };
    const idlePeer: Result = { ...idle, system: "bullmq", p50Ms: 3 };
    const flooded: Result = { ...idle, backlog: "200000 due at once", p50Ms: 4, p99Ms: 16 };
    const [, idleRow, , floodedRow] = resultTable([idle, idlePeer, flooded]).split("\n");
    expect(idleRow).toMatch(/1\.50, 1\.00 +-$/);
    expect(floodedRow).toMatch(/- +0\.50, 0\.25$/);
  });

  it("compares like with like where the peer has the same settings", () => {
    const one: Result = { ...drained, store: "redis", concurrency: 1, rate: 6000 };
    const peerAtOne: Result = { ...one, system: "bullmq", rate: 3000 };
    const peerAtMany: Result = { ...peerAtOne, concurrency: 100, rate: 12_000 };
    const twoProcesses: Result = { ...peerAtOne, processes: 2, rate: 9000 };
    expect(resultTable([one, peerAtOne, peerAtMany, twoProcesses]).split("\n")[1]).toMatch(/2\.00 +-$/);
  });

  it("calls less memory better", () => {
    const { rate: _, ...shared } = drained;
    const small: Result = { ...shared, work: "footprint", bytesPerJob: 500 };
    const large: Result = { ...small, system: "bullmq", bytesPerJob: 750 };
    expect(resultTable([small, large]).split("\n")[1]).toMatch(/500 +1\.50 +-$/);
    expect(resultLine(small)).toContain('"bytesPerJob":500');
  });

  it("calls fewer calls and shorter times better", () => {
    const idle: Result = { ...drained, work: "idle", jobs: 0, rate: 1 };
    const idlePeer: Result = { ...peer, work: "idle", jobs: 0, rate: 2 };
    const busyPeer: Result = { ...idlePeer, system: "pg-boss", rate: 5 };
    expect(resultTable([idle, idlePeer, busyPeer]).split("\n")[1]).toMatch(/2\.00 +-$/);
    const { rate: _, ...shared } = drained;
    const quick: Result = { ...shared, work: "latency", p50Ms: 0.5, p99Ms: 1 };
    const slow: Result = { ...quick, system: "plainjob", p50Ms: 1 };
    expect(resultTable([quick, slow]).split("\n")[1]).toMatch(/2\.00, 1\.00 +-$/);
  });

  it("compares latencies after a pause with the peer's after a pause", () => {
    const { rate: _, ...shared } = drained;
    const quick: Result = { ...shared, work: "latency", p50Ms: 0.5, p99Ms: 1 };
    const slow: Result = { ...quick, system: "plainjob", p50Ms: 1, p99Ms: 4 };
    const rested = { note: "each after a pause", p50Ms: 2, p99Ms: 4 };
    const [, row, , restedRow] = resultTable([
      ...[quick, slow, { ...quick, ...rested }],
      { ...slow, ...rested, p50Ms: 3 },
    ]).split("\n");
    expect(row).toMatch(/2\.00, 4\.00 +-$/);
    expect(restedRow).toMatch(/1\.50, 1\.00 +-$/);
  });

  it("says whether memory stayed flat", () => {
    const samples = [{ jobs: 0, heapBytes: 0, rssBytes: 0 }];
    expect(memoryTable({ jobs: 10, samples, bytesPerJob: 1 })).toContain(": flat (1.0 bytes");
    expect(memoryTable({ jobs: 10, samples, bytesPerJob: 100 })).toContain(": NOT flat");
  });
});

describe("figures", () => {
  it("are the median of the rounds, and always one that was measured", () => {
    expect(medianFigures([{ rate: 3 }, { rate: 1 }, { rate: 2 }])).toEqual({ rate: 2 });
    const rounds = [
      { p50Ms: 1, p99Ms: 9 },
      { p50Ms: 2, p99Ms: 7 },
      { p50Ms: 3, p99Ms: 8 },
    ];
    expect(medianFigures(rounds)).toEqual({ p50Ms: 2, p99Ms: 8 });
    expect(medianFigures([{ bytesPerJob: 5 }])).toEqual({ bytesPerJob: 5 });
    expect(percentile([4, 1, 3, 2], 0.99)).toBe(4);
    expect(percentile([4, 1, 3, 2], 0.5)).toBe(2);
  });
});

it("the table of a bucket says what the puts of a million jobs cost", () => {
  const bucket: Result = { ...drained, store: "bucket", puts: 0.0034, putBytes: 167 };
  const [heading = "", row = ""] = resultTable([bucket]).split("\n");
  expect(heading).toMatch(/puts +put bytes +\$\/million$/);
  expect(row).toMatch(/0\.00340 +167 +0\.017$/);
  const idle = resultTable([{ ...bucket, work: "idle", jobs: 0 }]).split("\n")[1];
  expect(idle).toMatch(/ -$/);
});
