/**
 * A real server killed -9 under load, with producers and workers that go on, and workers killed with jobs in their
 * hands. The server syncs what it acknowledges, so that is what must be there afterwards. Any store that lives on a
 * server runs this.
 */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Violation } from "../history/checks/check-history.ts";
import type { Evidence } from "../history/history.ts";
import { judgeBy } from "../history/judge-by.ts";
import type { Promises } from "../history/judge-by.ts";
import type { TestServer } from "../support/servers/test-server.ts";
import { ChaosRun } from "./chaos-run.ts";
import type { ChaosPlace } from "./chaos-run.ts";
import { until } from "../support/until.ts";

const leaseMs = 1500;

export interface CrashSubject extends Promises {
  readonly title: string;
  /** Claims do not wait for the disk, so a crash may take the last of them back. */
  readonly forgetsClaims?: boolean;
  readonly start: () => Promise<TestServer>;
  /** An empty store on it for each case. */
  readonly open: (server: TestServer) => Promise<ChaosPlace>;
}

export function describeCrashes(subject: CrashSubject): void {
  const { title, forgetsClaims = false, start, open } = subject;
  const judge = judgeBy(subject);

  describe(`${title}`, () => {
    let server: TestServer;
    let place: ChaosPlace;
    let run: ChaosRun;
    beforeAll(async () => {
      server = await start();
      return () => server.stop();
    });
    beforeEach(async () => {
      place = await open(server);
      run = new ChaosRun(place, leaseMs);
    });
    afterEach(async () => {
      await run.supervisor.killAll();
      await place.store.close();
    });

    const countCompleted = async (): Promise<number> => {
      const stateCounts = await place.store.countJobs().catch(() => []);
      return stateCounts.reduce((sum, { state, count }) => sum + (state === "completed" ? count : 0), 0);
    };
    const isBack = (): Promise<boolean> =>
      // Orphans of a killed server may hold its memory until they notice.
      server.restart().then(
        () => true,
        () => false,
      );

    test("the server is killed -9 twice under load: producers and workers go on, and nothing acknowledged is lost", async () => {
      const jobs = 500;
      const workers = ["worker-1", "worker-2"].map((name) => run.start({ role: "worker", name }));
      await Promise.all(workers.map(({ ready }) => ready));
      const [half, rest] = [
        run.start({ role: "producer", name: "producer-1", to: jobs / 2, everyMs: 3 }),
        run.start({ role: "producer", name: "producer-2", from: jobs / 2 + 1, to: jobs, everyMs: 3 }),
      ];
      // A producer that is still opening the store when the server dies ends, as it should, and enqueues nothing.
      await Promise.all([half.ready, rest.ready]);
      const { epoch: before } = await place.store.describe();
      for (const least of [60, 200]) {
        await until(`${least} jobs are completed`, async () => (await countCompleted()) >= least);
        await server.kill();
        await until("the server is back", isBack);
      }
      await Promise.all([half.exited, rest.exited]);
      await until("everything has ended", () => run.isDrained().catch(() => false));
      const evidence = await run.finish(false);
      const { epoch } = await place.store.describe();

      const violations = judge(evidence).filter(
        (violation) => !(forgetsClaims && isForgottenClaim(evidence, violation, epoch)),
      );
      expect(violations).toEqual([]);
      const enqueues = evidence.operations.filter(({ kind }) => kind === "enqueue");
      expect(enqueues).toHaveLength(jobs);
      const acknowledged = enqueues.filter(({ seen }) => seen === "ok");
      expect(acknowledged.length).toBeGreaterThan(jobs / 2);
      const ended = evidence.snapshot.jobs.filter(({ name }) => name === "work");
      expect(ended.length).toBeGreaterThanOrEqual(acknowledged.length);
      expect(ended.every(({ state }) => state === "completed")).toBe(true);
      expect(workers.map(({ stopped }) => stopped?.notStopped)).toEqual([0, 0]);
      // Whatever a worker held over the crash, no fence was given twice.
      expect(epoch).toBeGreaterThan(before);
      const fences = evidence.effects
        .filter(({ kind }) => kind === "began")
        .map(({ id, fence }) => `${id} ${fence}`);
      expect(new Set(fences).size).toBe(fences.length);
    });

    test("the jobs of a killed worker run again after the end of their leases and not before", async () => {
      const jobs = 8;
      const input = { number: 0, ms: 60_000 };
      // Half of it is left when the victim dies, at least: time for a look at where it ends.
      const options = { concurrency: jobs, leaseMs: 4000 };
      const victim = run.start({ role: "worker", name: "victim", ...options });
      await victim.ready;
      const producer = run.start({ role: "producer", name: "producer", to: jobs, input });
      await producer.exited;
      const ids = Array.from({ length: jobs }, (_, index) => `job-${index + 1}`);
      /** Of the victim's leases, by the last look at them. */
      const ends = new Map<string, number | null>();
      const isHeldBy = async (name: string): Promise<boolean> => {
        const records = await place.store.readJobs(ids);
        const isHis = (record: (typeof records)[number], owner: string): boolean =>
          record?.state === "running" && record.owner?.includes(owner) === true;
        for (const record of records) if (isHis(record, "victim")) ends.set(record!.id, record!.leaseEndsAt);
        return records.every((record) => isHis(record, name));
      };
      await until("the victim holds every job", () => isHeldBy("victim"));
      const heir = run.start({ role: "worker", name: "heir", ...options });
      await heir.ready;
      victim.send("SIGKILL");
      await victim.exited;
      await until("the heir holds every job", () => isHeldBy("heir"));
      for (const record of await place.store.readJobs(ids))
        expect(record?.claimedAt).toBeGreaterThanOrEqual(ends.get(record?.id ?? "") ?? Infinity);
    });
  });
}

/** A job ran oftener than it was claimed on record, but no oftener than under epochs that a crash has ended. */
function isForgottenClaim(evidence: Evidence, { invariant, id }: Violation, epochNow: number): boolean {
  if (invariant !== 46 || id === undefined) return false;
  const runs = evidence.effects.filter((effect) => effect.kind === "began" && effect.id === id);
  const before = runs.filter(({ fence }) => Math.floor(fence / 2 ** 32) < epochNow).length;
  const events = evidence.snapshot.feed.flatMap((record) => record.events);
  const claims = events.filter((event) => event.kind === "claimed" && event.id === id).length;
  return runs.length - claims > 0 && runs.length - claims <= before;
}
