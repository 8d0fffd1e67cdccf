/** The bench as it is typed, on few jobs: that it runs, says what it must, and leaves nothing behind. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
const cacheFolder = fileURLToPath(new URL("../node_modules/.cache/millrace-bench", import.meta.url));
const run = promisify(execFile);
/** Up to a dozen processes one after the other, each with its own start. */

function bench(...words: string[]) {
  return run(process.execPath, ["--conditions=millrace-source", main, "--rounds", "1", ...words]);
}

function linesOf(output: string): Record<string, unknown>[] {
  return output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

const shared = [
  "system",
  "version",
  "store",
  "work",
  "concurrency",
  "processes",
  "jobs",
  "backlog",
  "durability",
];

describe("npm run bench", () => {
  it("measures the engine alone over the stub store", async () => {
    const { stdout } = await bench("--store", "stub", "--jobs", "2000", "--json");
    const results = linesOf(stdout);
    expect(results.map(({ work, concurrency }) => [work, concurrency])).toEqual([
      ["enqueue-single", 1],
      ["enqueue-concurrent", 1000],
      ["enqueue-bulk", 1],
      ["drain", 1],
      ["drain", 100],
    ]);
    for (const result of results) {
      expect(Object.keys(result)).toEqual([...shared, "rate"]);
      expect(result["rate"]).toBeGreaterThan(0);
    }
  });

  it("drains Millrace and its peer side by side, over several processes too", async () => {
    const { stdout } = await bench("--quick", "--only", "drain", "--jobs", "1000", "--json");
    const results = linesOf(stdout).map(({ system, concurrency, durability }) => [
      system,
      concurrency,
      durability,
    ]);
    expect(results).toContainEqual(["millrace", 1, "strict"]);
    expect(results).toContainEqual(["millrace", 100, "strict"]);
    expect(results).toContainEqual(["plainjob", null, "relaxed"]);
  });

  it("runs durable runs of Millrace and its peer side by side", async () => {
    const { stdout } = await bench("--quick", "--only", "steps", "--jobs", "20", "--json");
    const results = linesOf(stdout);
    expect(results.map(({ system, durability }) => [system, durability])).toEqual([
      ["millrace", "strict"],
      ["openworkflow", "strict"],
    ]);
    for (const result of results) expect(result["rate"]).toBeGreaterThan(0);
  });

  it("tells latency as two times, and prints a table to people", async () => {
    const [json, table] = await Promise.all([
      bench("--quick", "--only", "latency", "--jobs", "20", "--json"),
      bench("--quick", "--only", "enqueue-bulk", "--jobs", "2000"),
    ]);
    for (const { note, ...result } of linesOf(json.stdout)) {
      expect(Object.keys(result)).toEqual([...shared, "p50Ms", "p99Ms"]);
      expect(note).toBe("each after a pause");
    }
    expect(table.stdout).toContain("synchronous = NORMAL");
    expect(table.stdout).toMatch(/enqueue-bulk +- +millrace/);
  });

  it("drains special jobs in turns with plain ones, and tells how late delayed jobs start beside a flood", async () => {
    const [tagged, delayed] = await Promise.all([
      bench("--quick", "--only", "tagged", "--jobs", "500", "--json"),
      bench("--quick", "--only", "delayed", "--jobs", "20", "--flood", "2000", "--json"),
    ]);
    const drained = linesOf(tagged.stdout);
    expect(drained.map(({ work, note }) => [work, note])).toEqual([
      ["tagged", "plain jobs"],
      ["tagged", undefined],
    ]);
    for (const { note: _, ...result } of drained) expect(Object.keys(result)).toEqual([...shared, "rate"]);
    const late = linesOf(delayed.stdout);
    expect(late.map(({ system, backlog }) => [system, backlog])).toEqual([
      ["millrace", null],
      ["plainjob", null],
      ["millrace", "2000 due at once"],
    ]);
    for (const result of late) expect(Object.keys(result)).toEqual([...shared, "p50Ms", "p99Ms"]);
  });

  it("measures a bucket beside a SQLite file, with the objects that it puts", async () => {
    const { stdout } = await bench("--store", "bucket", "--only", "drain", "--jobs", "1000", "--json");
    const [bucket = {}, file = {}] = linesOf(stdout);
    expect([bucket["system"], file["system"]]).toEqual(["millrace", "millrace-sqlite"]);
    expect(Object.keys(bucket)).toEqual([...shared, "rate", "puts", "putBytes"]);
    expect(Object.keys(file)).toEqual([...shared, "rate"]);
  });

  it("refuses what it does not know, with its usage", async () => {
    for (const words of [
      ["--store", "mongo"],
      ["--only", "all"],
      ["--jobs", "0"],
      ["--fast"],
      ["--json", "--only", "memory"],
      ["--only", "footprint"],
      ["--store", "stub", "--only", "retry"],
      ["--store", "sqlite", "--only", "take-over"],
      ["--latency", "50"],
    ]) {
      await expect(bench(...words)).rejects.toMatchObject({
        code: 2,
        stderr: expect.stringContaining("npm run bench"),
      });
    }
  });

  it("leaves no file behind", async () => {
    const running = bench("--quick", "--only", "enqueue-bulk", "--jobs", "1000", "--json");
    await running;
    expect(existsSync(join(cacheFolder, String(running.child.pid)))).toBe(false);
  });
});
