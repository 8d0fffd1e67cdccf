/**
 * `simulate`: a scenario of the application is run once, and then once for each crash point: the worker process is
 * killed before or after one of the commits of that first run, and another process goes on.
 */
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import type { Handler } from "../worker/handler.ts";
import { crashPointName, readCrashPoint } from "./crash-points.ts";
import type { CrashPoint } from "./crash-points.ts";
import { SimulatedRun } from "./simulated-run.ts";
import type { TestMillrace } from "./test-millrace.ts";
import { readTestOptions } from "./test-options.ts";
import type { TestMillraceOptions } from "./test-options.ts";

export interface SimulateOptions<World = undefined> extends Omit<TestMillraceOptions, "handlers" | "mode"> {
  /**
   * Makes what lives outside of your processes: the mail server, the bank, tables of your own. It is called for each
   * run. What it returns survives the crash.
   */
  world?: () => World;
  /**
   * The handlers. A function is called for each process, so that what a process keeps in memory is gone after the
   * crash.
   */
  handlers: readonly Handler[] | ((world: World) => readonly Handler[]);
  /**
   * What happens from outside: it enqueues, sends signals, moves the clock and drains. Its own process is not killed.
   * It must do the same in each run, so check what came of it in `invariants`.
   */
  scenario: (t: TestMillrace, world: World) => unknown;
  /** What must hold at the end of each run, by name. One is broken if it throws, rejects or returns false. */
  invariants: Readonly<Record<string, (t: TestMillrace, world: World) => unknown>>;
  /** For how long the clock goes on after the scenario, for retries and waits; 1 h by default. */
  afterwards?: Duration;
  /** Only this crash, as the error of an earlier call names it: `"settle#3 after"`. */
  crashAt?: string;
  /** How many crashes are run, spread over all crash points if there are more; 1,000 by default. */
  maxCrashes?: number;
}

export interface SimulateReport {
  /** How many commits the run without a crash made. Each has two crash points. */
  readonly commits: number;
  /** The crash points that were run. */
  readonly crashes: readonly string[];
  /** How many crash points were not run, because there were more than `maxCrashes`. */
  readonly skipped: number;
}

const crashesMax = 1000;

/**
 * Runs a scenario without a crash, and then again with the worker process killed before and after each of its commits.
 * Rejects with the code `simulation-failed` at the first run whose invariants do not hold; the error names the crash
 * point that repeats it.
 */
export async function simulate<World = undefined>(options: SimulateOptions<World>): Promise<SimulateReport> {
  if (typeof options !== "object" || options === null)
    throw new MillraceError("invalid-option", "simulate: the options must be an object.");
  const { crashAt, maxCrashes = crashesMax } = options;
  if (!Number.isSafeInteger(maxCrashes) || maxCrashes < 1)
    throw new MillraceError("invalid-option", "simulate: maxCrashes must be a whole number from 1 on.");
  const only = crashAt === undefined ? null : readCrashPoint(crashAt);
  const play = readSimulation(options);
  const commits = await play(null);
  const all = commits.flatMap((commit): CrashPoint[] => [
    { commit, when: "before" },
    { commit, when: "after" },
  ]);
  const points = only === null ? spread(all, maxCrashes) : [only];
  for (const point of points) await play(point);
  return {
    commits: commits.length,
    crashes: points.map(crashPointName),
    skipped: only === null ? all.length - points.length : 0,
  };
}

type Play = (crash: CrashPoint | null) => Promise<readonly string[]>;

/** @returns a function that runs the scenario, and answers its commits. */
function readSimulation<World>(options: SimulateOptions<World>): Play {
  const {
    world: makeWorld,
    handlers,
    scenario,
    invariants,
    afterwards,
    crashAt: _,
    maxCrashes: __,
    ...rest
  } = options;
  if (typeof scenario !== "function")
    throw new MillraceError("invalid-option", "simulate: scenario must be a function.");
  if (typeof handlers !== "function" && !Array.isArray(handlers))
    throw new MillraceError(
      "invalid-option",
      "simulate: handlers must be a list, or a function that makes one.",
    );
  const checks = Object.entries(invariants ?? {});
  if (checks.length === 0 || checks.some(([, check]) => typeof check !== "function"))
    throw new MillraceError(
      "invalid-option",
      "simulate: invariants must be functions by name, at least one.",
    );
  // A write of metrics is no commit of the scenario: a crash there would only repeat the run.
  const settings = readTestOptions("simulate", { metrics: false, ...rest });
  const afterwardsMs = durationMs(afterwards ?? "1h", "simulate: afterwards");

  return async (crash) => {
    const world = makeWorld?.() as World;
    const made = typeof handlers === "function" ? () => handlers(world) : () => handlers;
    const run = await SimulatedRun.open({ ...settings, handlers: made, afterwardsMs }, crash);
    try {
      await guarded(crash, "the scenario failed", async () => {
        await scenario(run.t, world);
        await run.comeToRest();
      });
      if (crash !== null && !run.counter.wasReached) throw notReached(crash);
      for (const [name, check] of checks)
        await guarded(crash, `the invariant ${JSON.stringify(name)} is broken`, async () => {
          if ((await check(run.t, world)) === false) throw new Error("it returned false");
        });
      return [...run.counter.commits];
    } finally {
      await run.close();
    }
  };
}

async function guarded(crash: CrashPoint | null, what: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    const where =
      crash === null ? "without a crash" : `after a crash at ${JSON.stringify(crashPointName(crash))}`;
    const again = crash === null ? "" : ` Repeat it with crashAt: ${JSON.stringify(crashPointName(crash))}.`;
    const reason = error instanceof Error ? error.message : String(error);
    throw new MillraceError("simulation-failed", `simulate: ${what} ${where}: ${reason}.${again}`, {
      cause: error,
    });
  }
}

function notReached(crash: CrashPoint): MillraceError {
  return new MillraceError(
    "simulation-failed",
    `simulate: the crash point ${JSON.stringify(crashPointName(crash))} was not reached. The scenario and the handlers must do the same in each run; real timers and random numbers prevent that.`,
  );
}

function spread<Item>(items: readonly Item[], max: number): readonly Item[] {
  if (items.length <= max) return items;
  return Array.from({ length: max }, (_, at) => items[Math.floor(((at + 0.5) * items.length) / max)] as Item);
}
