/**
 * Real worker processes on one store, killed -9 and frozen at random, judged by the same history checker as the
 * simulation: nothing lost, nothing settled twice, no lease held at the end. A run without faults comes first and must
 * be spotless. Any store that several processes can share runs this.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { Evidence } from "../history/history.ts";
import { judgeBy } from "../history/judge-by.ts";
import type { Promises } from "../history/judge-by.ts";
import { ChaosRun, countEvents } from "./chaos-run.ts";
import type { ChaosPlace } from "./chaos-run.ts";
import type { Line } from "./recorded-store.ts";
import type { ChaosProcess } from "./supervisor.ts";
import { until } from "../support/until.ts";

const leaseMs = 1000;

export interface KillSubject extends Promises {
  readonly title: string;
  /** How much is enqueued, and how often a process is killed or frozen meanwhile: about every 400 ms. */
  readonly jobs: number;
  readonly faults: number;
  /** An empty store for each case, and its removal. */
  readonly open: () => Promise<ChaosPlace & { remove(): Promise<void> }>;
}

export function describeKills(subject: KillSubject): void {
  const { title, jobs, faults, open } = subject;
  const judge = judgeBy(subject);

  describe(`${title}`, () => {
    let place: Awaited<ReturnType<typeof open>>;
    let run: ChaosRun;
    beforeEach(async () => {
      place = await open();
      run = new ChaosRun(place, leaseMs);
    });
    afterEach(async () => {
      await run.supervisor.killAll();
      await place.store.close();
      await place.remove();
    });

    test("without faults nothing is reclaimed, refused, run twice or dead-lettered", async () => {
      const few = 150;
      // Renewed when half of it is over at the latest: a process that gets no processor for ten seconds has lost
      // nothing here.
      const steadyMs = 30_000;
      const workers = ["worker-1", "worker-2"].map((name) =>
        run.start({ role: "worker", name, leaseMs: steadyMs }),
      );
      await Promise.all(workers.map(({ ready }) => ready));
      const producer = run.start({ role: "producer", name: "producer-1", to: few });
      await producer.exited;
      await until("everything has ended", () => run.isDrained());
      const evidence = await run.finish(true);
      expect(judge(evidence)).toEqual([]);
      expect(evidence.snapshot.jobs.filter(({ name }) => name === "work")).toHaveLength(few);
      expect(evidence.snapshot.jobs.every(({ state }) => state === "completed")).toBe(true);
      expect(countEvents(evidence, "reclaimed")).toBe(0);
      expect(
        countAnswers(evidence, "stale") + countAnswers(evidence, "gone") + countAnswers(evidence, "already"),
      ).toBe(0);
      expect(runsPerClaim(evidence)).toBe(1);
      expect(workers.every(({ stopped }) => stopped?.notStopped === 0)).toBe(true);
    });

    describe("with processes killed -9 and frozen at random", () => {
      test("nothing is lost, nothing is settled twice and no lease is held at the end", async () => {
        const random = createSeededRandom("kill");
        let started = 0;
        const startWorker = (): ChaosProcess => run.start({ role: "worker", name: `worker-${++started}` });
        let workers = [startWorker(), startWorker(), startWorker()];
        await Promise.all(workers.map(({ ready }) => ready));
        const produceFrom = (from: number): ChaosProcess =>
          run.start({ role: "producer", name: `producer-${++started}`, from, to: jobs, everyMs: 4 });
        // One job for certain is in the hands of a worker that dies.
        const isHeld = (line: Line): boolean => line.line === "effect" && line.effect.id === "job-0";
        const holders = workers.map((each) => each.hears(isHeld).then(() => each));
        const input = { number: 0, ms: 600 };
        run.start({ role: "producer", name: "producer-0", from: 0, to: 0, input });
        const holder = await Promise.race(holders);
        holder.send("SIGKILL");
        workers = [...workers.filter((each) => each !== holder), startWorker()];
        let producer = produceFrom(1);

        for (let fault = 0; fault < faults; fault++) {
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
        // On a busy machine one may fail to open the store, or give an enqueue up.
        for (let more = 0; firstUnknown(producer) <= jobs; more++) {
          if (more === 5) throw new Error(`not all jobs were enqueued: ${producer.complaints}`);
          producer = produceFrom(firstUnknown(producer));
          await producer.exited;
        }
        await until("everything has ended", () => run.isDrained());
        const evidence = await run.finish(false);

        expect(judge(evidence)).toEqual([]);
        const made = evidence.snapshot.jobs.filter(({ name }) => name === "work");
        expect(made).toHaveLength(jobs + 1);
        expect(made.every(({ state }) => state === "completed")).toBe(true);
        expect(evidence.snapshot.jobs.filter(({ leaseEndsAt }) => leaseEndsAt !== null)).toEqual([]);
        // The faults were felt: processes died with work in their hands.
        expect(countEvents(evidence, "reclaimed")).toBeGreaterThan(0);
        expect(started).toBeGreaterThan(8);
      });
    });

    test("a job that kills its worker at once is started as often as it may be", async () => {
      const input = { number: 1, ms: 0, kills: 2 };
      const producer = run.start({ role: "producer", name: "producer", to: 1, input });
      await producer.exited;
      for (const name of ["first", "second"]) {
        const victim = run.start({ role: "worker", name });
        await victim.exited;
      }
      run.start({ role: "worker", name: "third" });
      await until(
        "the job has failed",
        async () => (await place.store.readJobs(["job-1"]))[0]?.state === "failed",
      );
      const evidence = await run.finish(false);
      expect(evidence.effects.map(({ actor }) => actor)).toEqual(["first", "second"]);
    });

    test("a worker that was frozen past its lease has its late settle refused", async () => {
      const slow = run.start({ role: "worker", name: "frozen", concurrency: 1 });
      await slow.ready;
      const began = slow.hears((line) => line.line === "effect" && line.effect.kind === "began");
      const input = { number: 1, ms: 0, freezes: "frozen" };
      run.start({ role: "producer", name: "producer", to: 1, input });
      await began;
      const quick = run.start({ role: "worker", name: "quick", concurrency: 1, leaseMs: 60_000 });
      await quick.ready;
      await until(
        "the other worker has completed the job",
        async () => (await place.store.readJobs(["job-1"]))[0]?.state === "completed",
      );
      const refused = slow.hears(
        (line) =>
          line.line === "answer" && JSON.stringify(line.answer) === JSON.stringify([{ kind: "stale" }]),
      );
      slow.send("SIGCONT");
      await refused;
      const evidence = await run.finish(false);
      expect(judge(evidence)).toEqual([]);
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
  });
}

/** The next producer begins with what the last one could not be sure of. */
export function firstUnknown({ operations }: ChaosProcess): number {
  const isKnown = new Map<number, boolean>();
  for (const each of operations) {
    if (each.kind !== "enqueue") continue;
    const { number } = JSON.parse(String(each.inputs[0])) as { number: number };
    isKnown.set(number, isKnown.get(number) === true || each.seen === "ok");
  }
  const numbers = [...isKnown.keys()];
  return numbers.find((number) => !isKnown.get(number)) ?? (numbers.at(-1) ?? 0) + 1;
}

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
