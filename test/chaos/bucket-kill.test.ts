/**
 * Real processes on one bucket on disk, of which one writes: killed -9, frozen and taken over while they enqueue and
 * work, judged by the history checker. MILLRACE_TRIES=20 kills so often.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { judgeBy } from "../history/judge-by.ts";
import { hangMs } from "../support/hang-ms.ts";
import { until } from "../support/until.ts";
import type { Operation } from "../history/history.ts";
import { nowUs } from "./recorded-store.ts";
import type { ChaosProcess } from "./supervisor.ts";
import { openBucketRun } from "./bucket-run.ts";
import type { BucketRun } from "./bucket-run.ts";
import { firstUnknown } from "./kill-suite.ts";

const tries = Number(process.env["MILLRACE_TRIES"] ?? 2);
const leaseMs = 1000;
const jobs = 80 * tries;
const judge = judgeBy({ isSerial: true });
const wait = { bucket: { whenHeld: "wait" } } as const;
const take = { bucket: { whenHeld: "take" } } as const;

let run: BucketRun;
beforeEach(async () => void (run = await openBucketRun(leaseMs)));
afterEach(() => run.remove());

const isDrained = (): Promise<boolean> =>
  run.look(async (store) => {
    const stateCounts = await store.countJobs();
    return stateCounts.every(({ state }) => !["ready", "running", "scheduled"].includes(state));
  });

test("a writer is killed -9 again and again, and the next one goes on: nothing is lost or settled twice", async () => {
  const random = createSeededRandom(`bucket ${process.env["MILLRACE_SEED"] ?? "kill"}`);
  let from = 1;
  let writer = run.start("writer-0", { store: wait, from, to: jobs, everyMs: 2 });
  // A writer that has nothing left to enqueue knows of no enqueue.
  const next = (): number => Math.max(from, firstUnknown(writer));
  await writer.ready;
  for (let fault = 1; fault <= tries; fault++) {
    await sleep(random.whole(50, 600));
    writer.send("SIGKILL");
    await writer.exited;
    from = next();
    writer = run.start(`writer-${fault}`, { store: wait, from, to: jobs, everyMs: 2 });
    await writer.ready;
  }
  await until("all is enqueued", () => next() > jobs);
  await until("everything has ended", isDrained);
  const evidence = await run.finish();
  expect(judge(evidence)).toEqual([]);
  const made = evidence.snapshot.jobs.filter(({ name }) => name === "work");
  expect(made).toHaveLength(jobs);
  expect(evidence.snapshot.jobs.every(({ state }) => state === "completed")).toBe(true);
});

/** Answers that promise nothing, so they do not wait until their commit has landed. */
const unpromising: ReadonlySet<Operation["kind"]> = new Set(["claim", "extendIfLeased"]);

const enqueued = (each: ChaosProcess): number =>
  each.operations.filter(({ kind, seen }) => kind === "enqueue" && seen === "ok").length;

test("newcomers take the bucket from a frozen writer: one of them has it, and the old one acknowledges nothing", async () => {
  const old = run.start("old", {
    ...{ store: wait, from: 1, to: 1 },
    input: { number: 1, ms: hangMs, heeds: true },
  });
  await old.ready;
  await until("its job runs and was acknowledged", () => old.effects.length > 0 && enqueued(old) === 1);
  old.send("SIGSTOP");
  const newcomers = Array.from({ length: tries }, (_, index) => {
    const from = 1000 * (index + 1);
    return run.start(`newcomer-${index}`, { store: take, from, to: from + 60, everyMs: 5 });
  });
  await Promise.all(newcomers.map(({ ready }) => ready));
  const aborted = old.hears((line) => line.line === "effect" && line.effect.wasAborted === true);
  old.send("SIGCONT");
  const takenUs = nowUs();
  // Its renewal says that the lease is lost.
  await aborted;
  old.send("SIGTERM");
  await old.exited;
  // A fenced worker stops itself, so the process may have ended before it was told to.
  expect(old.stopped?.notStopped ?? 0).toBe(0);
  const isAcknowledged = ({ kind, seen, answeredUs }: Operation): boolean =>
    seen === "ok" && !unpromising.has(kind) && (answeredUs ?? 0) > takenUs;
  expect(old.operations.filter(isAcknowledged)).toEqual([]);
  // Another one may have done so before it was taken over itself: that depends on how fast processes start.
  await until("one of them has enqueued all", () => newcomers.some((each) => enqueued(each) === 61));
  // On a fast storage they have enqueued all before the lease of the old one is over.
  await until("the winner runs the job of the old one", () =>
    newcomers.some(({ effects }) => effects.some(({ id }) => id === "job-1")),
  );
  // It would wait for the end of that job.
  for (const each of newcomers) each.send("SIGKILL");
  const evidence = await run.finish();
  expect(judge(evidence).filter(({ invariant }) => invariant !== 8)).toEqual([]);
  const known = new Set(evidence.snapshot.jobs.map(({ id }) => id));
  const told = run.processes.flatMap(({ operations }) =>
    operations.flatMap((each) => (each.kind === "enqueue" && each.seen === "ok" ? (each.got ?? []) : [])),
  );
  expect(told.filter((id) => !known.has(id))).toEqual([]);
});
