/**
 * The bench on Postgres as it is typed, on few jobs: every system and mode runs to its end, and the store knows of
 * every job.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
const run = promisify(execFile);
/** A server and a dozen processes, each with its own start. */

async function bench(...words: string[]): Promise<Record<string, unknown>[]> {
  const all = ["--store", "postgres", "--quick", "--rounds", "1", "--json", ...words];
  const { stdout } = await run(process.execPath, ["--conditions=millrace-source", main, ...all]);
  const lines = stdout.trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("npm run bench -- --store postgres", () => {
  it("drains Millrace and its peers on one server, each in its modes, with a note where there is something to say", async () => {
    const results = await bench("--only", "drain", "--jobs", "500");
    expect(results.map(({ system, concurrency, note }) => [system, concurrency, note])).toEqual([
      ["millrace", 100, undefined],
      ["graphile-worker", 100, "local-queue mode"],
      ["pg-boss", null, "3 loops of fetch and complete, by 1000"],
      ["millrace", 100, "keeps no finished jobs"],
      ["pg-boss", null, "work(), by 1000, 3 at a time"],
      ["graphile-worker", 100, "default mode"],
      ["millrace", 1, undefined],
    ]);
    for (const result of results) expect(result).toMatchObject({ store: "postgres", durability: "strict" });
  });

  it("drains jobs with unique keys beside pg-boss's, in turns with plain ones", async () => {
    const results = await bench("--only", "unique", "--jobs", "500");
    expect(results.map(({ system, note }) => [system, note])).toEqual([
      ["millrace", "plain jobs"],
      ["pg-boss", "plain jobs"],
      ["millrace", undefined],
      ["pg-boss", undefined],
    ]);
  });

  it("runs durable runs of Millrace and its peers, many at once and step by step", async () => {
    const systems = ["millrace", "@dbos-inc/dbos-sdk", "openworkflow"];
    const many = await bench("--only", "steps", "--jobs", "20");
    expect(many.map(({ system }) => system)).toEqual(systems);
    for (const result of many) expect(result["rate"]).toBeGreaterThan(0);
    const alone = await bench("--only", "steps-sequential", "--jobs", "100");
    expect(alone.map(({ system }) => system)).toEqual(systems);
    for (const result of alone) expect(result["p50Ms"]).toBeGreaterThan(0);
  });

  it("measures latency from another process", async () => {
    const results = await bench("--only", "latency", "--jobs", "5");
    expect(results.map(({ system, processes }) => [system, processes])).toEqual([
      ["millrace", 2],
      ["pg-boss", 2],
      ["graphile-worker", 2],
    ]);
    for (const result of results) expect(result["p50Ms"]).toBeGreaterThan(0);
  });
});
