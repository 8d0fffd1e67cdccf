/** What a run measures: what is left out in a hurry, and what is never left out. */
import { describe, expect, it } from "vitest";
import { readCommandLine } from "./command-line.ts";
import { bucketWorks, isBucketWork, unhurriedWorks } from "./figures.ts";
import { planGroups } from "./plan.ts";

function plan(...words: string[]) {
  return planGroups(readCommandLine(words));
}

describe("the plan", () => {
  it("holds every work that its store has", () => {
    for (const store of ["sqlite", "postgres", "redis"])
      expect(plan("--store", store).map(({ work }) => work)).toEqual(
        expect.arrayContaining([...unhurriedWorks]),
      );
  });

  it("asks a bucket what only a bucket is asked", () => {
    expect(plan("--store", "bucket").map(({ work }) => work)).toEqual(
      expect.arrayContaining([...bucketWorks]),
    );
    expect(
      plan("--store", "sqlite")
        .map(({ work }) => work)
        .filter(isBucketWork),
    ).toEqual([]);
  });

  it("leaves long works out of a hurried run, unless they are asked for by name", () => {
    const hurried = plan("--quick").map(({ work }) => work);
    for (const work of unhurriedWorks) {
      expect(hurried).not.toContain(work);
      expect(plan("--quick", "--only", work).map((group) => group.work)).toEqual([work]);
    }
  });

  it("leaves the peers out where Millrace is compared with itself", () => {
    const systems = plan("--store", "postgres", "--alone")
      .flatMap(({ entries }) => entries)
      .map(({ system }) => system);
    expect(new Set(systems)).toEqual(new Set(["millrace"]));
  });

  it("measures durable runs beside the peers that have them", () => {
    const systems = (store: string, work: string) =>
      plan("--store", store, "--only", work).map(({ entries }) =>
        entries.map(({ system, concurrency }) => [system, concurrency]),
      );
    for (const [work, slots] of [
      ["steps", 100],
      ["steps-sequential", 1],
    ] as const) {
      const [millrace, openWorkflow] = [
        ["millrace", slots],
        ["openworkflow", slots],
      ];
      expect(systems("postgres", work)).toEqual([[millrace, ["@dbos-inc/dbos-sdk", null], openWorkflow]]);
      expect(systems("sqlite", work)).toEqual([[millrace, openWorkflow]]);
      expect(systems("redis", work)).toEqual([[millrace]]);
    }
  });

  it("lets as many others come due beside delayed jobs as are asked for", () => {
    const floods = (...words: string[]) =>
      plan("--only", "delayed", ...words)
        .flatMap(({ entries }) => entries)
        .flatMap(({ backlog }) => backlog ?? []);
    expect(floods()).toEqual(["200000 due at once"]);
    expect(floods("--quick")).toEqual(["20000 due at once"]);
    expect(floods("--flood", "1000000")).toEqual(["1000000 due at once"]);
    expect(() => plan("--flood", "5")).toThrow("give --only delayed");
  });

  it("drains graphile-worker with local queues of both sizes where there are enough jobs for the larger", () => {
    const sizes = (...words: string[]) =>
      plan("--store", "postgres", "--only", "drain", ...words)
        .flatMap(({ entries }) => entries)
        .filter(({ mode }) => mode.startsWith("local-queue"))
        .map(({ mode }) => mode);
    expect(sizes()).toEqual(["local-queue", "local-queue-2000"]);
    expect(sizes("--quick")).toEqual(["local-queue"]);
  });
});
