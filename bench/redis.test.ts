/** The bench on Redis as it is typed, on few jobs: both systems run to their end, and the store knows of every job. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
const run = promisify(execFile);

async function bench(...words: string[]): Promise<Record<string, unknown>[]> {
  const all = ["--store", "redis", "--quick", "--rounds", "1", "--json", ...words];
  const { stdout } = await run(process.execPath, ["--conditions=millrace-source", main, ...all]);
  const lines = stdout.trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("npm run bench -- --store redis", () => {
  it("drains Millrace and BullMQ on one server, at each concurrency and over several processes", async () => {
    const results = await bench("--only", "drain", "--jobs", "500");
    expect(results.map(({ system, concurrency, processes }) => [system, concurrency, processes])).toEqual([
      ["millrace", 1, 1],
      ["bullmq", 1, 1],
      ["millrace", 10, 1],
      ["bullmq", 10, 1],
      ["millrace", 100, 1],
      ["bullmq", 100, 1],
      ["millrace", 100, 4],
      ["bullmq", 100, 4],
    ]);
    for (const result of results) expect(result).toMatchObject({ store: "redis", durability: "relaxed" });
  });

  it("compares special jobs and delays with BullMQ where it has them", async () => {
    const works = [["retry"], ["unique"], ["delayed", "--flood", "2000"]];
    const runs = await Promise.all(works.map((words) => bench("--only", ...words, "--jobs", "100")));
    const shown = runs.map((results) =>
      results.map(({ system, note, backlog }) => [system, note ?? backlog]),
    );
    const plain = "plain jobs";
    const both = [
      ["millrace", plain],
      ["bullmq", plain],
      ["millrace", null],
      ["bullmq", null],
    ];
    expect(shown).toEqual([
      both,
      both,
      [
        ["millrace", null],
        ["bullmq", null],
        ["millrace", "2000 due at once"],
      ],
    ]);
  });

  it("weighs waiting jobs, and tells latency as two times", async () => {
    const [weighed, late] = await Promise.all([
      bench("--only", "footprint", "--jobs", "2000"),
      bench("--only", "latency", "--jobs", "20"),
    ]);
    // Less than the input alone cannot be: then something was counted wrong.
    for (const result of weighed) expect(result["bytesPerJob"]).toBeGreaterThan(200);
    const pause = "each after a pause";
    expect(late.map(({ system, note, p50Ms }) => [system, note, Number(p50Ms) > 0])).toEqual([
      ["millrace", undefined, true],
      ["bullmq", undefined, true],
      ["millrace", pause, true],
      ["bullmq", pause, true],
    ]);
  });
});
