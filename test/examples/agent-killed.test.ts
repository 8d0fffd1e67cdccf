/**
 * The agent of the examples finishes once, although the process that works on it is killed -9 at random moments: after
 * a number of frames that a seed decides, in the middle of what the model says, between tools, before the approval.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { testMaxMs } from "../support/hang-ms.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";

const agent = join(import.meta.dirname, "..", "..", "examples", "agent.ts");
const start = killAfterEach(startScript);
const kills = Number(process.env["MILLRACE_KILLS"] ?? 2);
const said = "I would look at price of lamps+stock of lamps+rating of lamps";

test.each([1, 2])(
  "the agent acts once, whenever its process is killed (seed %i)",
  async (seed) => {
    const random = createSeededRandom(seed);
    const folder = mkdtempSync(join(tmpdir(), "millrace-agent-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const url = `sqlite:${join(folder, "jobs.db")}`;
    await using mill = await Millrace.open(url, { log: false });
    const lines: string[] = [];
    start(agent, [url, "ask"], (line) => lines.push(line));
    await until("the agent has a run", async () => (await mill.jobs.get("agent-1")) !== null);
    let frames = 0;
    let isOver = false;
    const reading = (async () => {
      for await (const _frame of mill.frames("agent-1")) frames += 1;
      isOver = true;
    })();
    for (let kill = 0; kill < kills; kill++) {
      const worker = start(agent, [url, "work"], () => undefined);
      const after = frames + random.whole(1, 6);
      await until("the model has said something", () => frames >= after || isOver);
      await worker.kill();
    }
    start(agent, [url, "work"], () => undefined);
    await until("the agent is done", () => lines.some((line) => line.startsWith("acts:")));
    await reading;
    expect(lines).toEqual([
      "approval: accepted",
      "plan#1: I would look at lamps",
      `answer#1: ${said}`,
      `result: ${said}`,
      "acts: 1 summary: { found: 3, approved: true }",
    ]);
    const { jobs } = await mill.jobs.list({ name: "tool" });
    expect(jobs.map(({ state }) => state)).toEqual(["completed", "completed", "completed"]);
  },
  testMaxMs,
);
