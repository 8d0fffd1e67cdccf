/**
 * Real worker processes on one file, killed -9 and frozen at random, judged by the same history checker as the simulation: nothing lost,
 * nothing settled twice, no lease held at the end. A run without faults comes first and must be spotless.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { checkHistory } from "../history/check-history.ts";
import type { Evidence, Operation } from "../history/history.ts";
import { takeSnapshot } from "../history/snapshot.ts";
import type { ChaosOptions } from "./chaos-process.ts";
import { Supervisor } from "./supervisor.ts";
import type { ChaosProcess } from "./supervisor.ts";

const leaseMs = 1000;
const drainMaxMs = 40_000;
const testMs = 120_000;

let folder: string;
let supervisor: Supervisor;
let store: Store;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "millrace-kill-"));
  supervisor = new Supervisor();
  store = await openSqliteStore({ path: join(folder, "jobs.db"), platform: nodePlatform });
});

afterEach(async () => {
  await supervisor.killAll();
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

function start(given: Partial<ChaosOptions> & Pick<ChaosOptions, "role" | "name">): ChaosProcess {
  const url = `sqlite:${join(folder, "jobs.db")}`;
  return supervisor.start({ url, leaseMs, concurrency: 8, from: 1, to: 0, everyMs: 1, ...given });
}

/** Looks until the condition holds; the condition, not the pause, decides. */
async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = drainMaxMs,
): Promise<void> {
  const endUs = nodePlatform.monotonicUs() + limitMs * 1000;
  while (!(await holds())) {
    if (nodePlatform.monotonicUs() > endUs)
      throw new Error(`within ${limitMs} ms it did not come about that ${what}`);
    await sleep(50);
  }
}

async function isDrained(): Promise<boolean> {
  const tallies = await store.tallyJobs();
  return tallies.every(({ state }) => state !== "ready" && state !== "running" && state !== "scheduled");
}

/** Stops the workers in good order and takes the evidence. */
async function finish(isFaultFree: boolean): Promise<Evidence> {
  await supervisor.stopAll();
  const stops: Operation[] = [];
  const snapshot = await takeSnapshot(store, createSeededRandom("pages"));
  for (const { name, stopped } of supervisor.processes) {
    if (stopped === null) continue;
    const { owner, atUs, notStopped } = stopped;
    const held = snapshot.jobs
      .filter((job) => job.state === "running" && job.owner === owner)
      .map(({ id }) => id);
    stops.push({
      kind: "stop",
      actor: name,
      owner,
      invokedUs: atUs,
      answeredUs: atUs,
      seen: "ok",
      order: null,
      held,
      isUndisturbed: notStopped === 0,
    });
  }
  return {
    operations: [...supervisor.operations, ...stops],
    effects: supervisor.effects,
    snapshot,
    isFaultFree,
    healedAt: null,
    leftovers: {},
  };
}

const countEvents = ({ snapshot }: Evidence, kind: string): number =>
  snapshot.feed.reduce((sum, { events }) => sum + events.filter((event) => event.kind === kind).length, 0);

const countAnswers = ({ operations }: Evidence, kind: string): number =>
  operations.reduce(
    (sum, call) =>
      sum +
      (call.kind === "settleIfLeased"
        ? (call.answer ?? []).filter((answer) => answer.kind === kind).length
        : 0),
    0,
  );

const runsPerClaim = ({ effects }: Evidence): number => {
  const began = effects.filter(({ kind }) => kind === "began");
  return began.length / new Set(began.map(({ id, fence }) => `${id}#${fence}`)).size;
};

test(
  "without faults nothing is reclaimed, refused, run twice or dead-lettered",
  { timeout: testMs },
  async () => {
    const jobs = 150;
    // Long enough for a machine that is busy with other tests: a process that gets no processor for a second has lost nothing here.
    const steadyMs = 5000;
    const workers = ["worker-1", "worker-2"].map((name) =>
      start({ role: "worker", name, leaseMs: steadyMs }),
    );
    await Promise.all(workers.map(({ ready }) => ready));
    const producer = start({ role: "producer", name: "producer-1", to: jobs });
    await producer.exited;
    await until("everything has ended", isDrained);
    const evidence = await finish(true);
    expect(checkHistory(evidence)).toEqual([]);
    expect(evidence.snapshot.jobs.filter(({ name }) => name === "work")).toHaveLength(jobs);
    expect(evidence.snapshot.jobs.every(({ state }) => state === "completed")).toBe(true);
    expect(countEvents(evidence, "reclaimed")).toBe(0);
    expect(
      countAnswers(evidence, "stale") + countAnswers(evidence, "gone") + countAnswers(evidence, "already"),
    ).toBe(0);
    expect(runsPerClaim(evidence)).toBe(1);
    expect(workers.every(({ stopped }) => stopped?.notStopped === 0)).toBe(true);
  },
);

describe("with processes killed -9 and frozen at random", () => {
  const jobs = 1000;
  const faultsMs = 9000;

  test(
    "nothing is lost, nothing is settled twice and no lease is held at the end",
    { timeout: testMs },
    async () => {
      const random = createSeededRandom("kill");
      let started = 0;
      const startWorker = (): ChaosProcess => start({ role: "worker", name: `worker-${++started}` });
      let workers = [startWorker(), startWorker(), startWorker()];
      await Promise.all(workers.map(({ ready }) => ready));
      const produceFrom = (from: number): ChaosProcess =>
        start({ role: "producer", name: `producer-${++started}`, from, to: jobs, everyMs: 4 });
      let producer = produceFrom(1);

      const endUs = nodePlatform.monotonicUs() + faultsMs * 1000;
      while (nodePlatform.monotonicUs() < endUs) {
        await sleep(random.whole(100, 700));
        const victim = random.pick(workers);
        if (random.chance(0.25)) {
          victim.send("SIGSTOP");
          const frozenMs = random.whole(leaseMs, 2 * leaseMs);
          void sleep(frozenMs).then(() => victim.send("SIGCONT"));
        } else {
          victim.send("SIGKILL");
          workers = [...workers.filter((each) => each !== victim), startWorker()];
        }
        if (random.chance(0.2) && producer.isRunning) {
          producer.send("SIGKILL");
          await producer.exited;
          producer = produceFrom(firstUnknown(producer));
        }
      }
      for (const each of workers) each.send("SIGCONT");
      await producer.exited;
      await until("everything has ended", isDrained);
      const evidence = await finish(false);

      expect(checkHistory(evidence)).toEqual([]);
      const made = evidence.snapshot.jobs.filter(({ name }) => name === "work");
      expect(made).toHaveLength(jobs);
      expect(made.every(({ state }) => state === "completed")).toBe(true);
      expect(evidence.snapshot.jobs.filter(({ leaseEndsAt }) => leaseEndsAt !== null)).toEqual([]);
      // The faults were felt: processes died with work in their hands.
      expect(countEvents(evidence, "reclaimed")).toBeGreaterThan(0);
      expect(started).toBeGreaterThan(8);
    },
  );

  /** The next producer begins with what the last one could not be sure of. */
  function firstUnknown({ operations }: ChaosProcess): number {
    const numbers = operations.flatMap((each) =>
      each.kind === "enqueue"
        ? [
            {
              number: (JSON.parse(String(each.inputs[0])) as { number: number }).number,
              isKnown: each.seen === "ok",
            },
          ]
        : [],
    );
    const unknown = numbers.find(({ isKnown }) => !isKnown);
    return unknown?.number ?? (numbers.at(-1)?.number ?? 0) + 1;
  }
});

test("a worker that was frozen past its lease has its late settle refused", { timeout: testMs }, async () => {
  const slow = start({ role: "worker", name: "frozen", concurrency: 1 });
  await slow.ready;
  const began = slow.hears((line) => line.line === "effect" && line.effect.kind === "began");
  const input = { number: 1, ms: 400, isBlocking: true };
  start({ role: "producer", name: "producer", to: 1, input });
  await began;
  slow.send("SIGSTOP");
  const quick = start({ role: "worker", name: "quick", concurrency: 1 });
  await quick.ready;
  await until(
    "the other worker has completed the job",
    async () => (await store.readJobs(["job-1"]))[0]?.state === "completed",
  );
  const refused = slow.hears(
    (line) => line.line === "answer" && JSON.stringify(line.answer) === JSON.stringify([{ kind: "stale" }]),
  );
  slow.send("SIGCONT");
  await refused;
  const evidence = await finish(false);
  expect(checkHistory(evidence)).toEqual([]);
  expect(countEvents(evidence, "completed")).toBe(1);
  expect(evidence.effects.filter(({ kind }) => kind === "began").map(({ actor }) => actor)).toEqual([
    "frozen",
    "quick",
  ]);
  expect(evidence.snapshot.jobs[0]).toMatchObject({
    state: "completed",
    owner: expect.stringContaining("quick") as unknown,
  });
});
