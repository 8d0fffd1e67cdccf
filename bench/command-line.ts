/** The bench's command line: what people type, and what is left once it is checked. */
import { parseArgs } from "node:util";
import { isBucketWork, objectsKinds, storeNames, unhurriedWorks, works } from "./figures.ts";
import type { Executor, ObjectsKind, StoreName, Work } from "./figures.ts";

export interface Asked {
  readonly store: StoreName;
  readonly isJson: boolean;
  readonly isQuick: boolean;
  /** Millrace without its peers: for comparing two versions of it, never for a claim about speed. */
  readonly isAlone: boolean;
  readonly only: Work | "memory" | null;
  /** Jobs per measurement; null for the plan's own numbers. */
  readonly jobs: number | null;
  readonly rounds: number | null;
  /** Of an idle fleet; null for the plan's own numbers. */
  readonly processes: number | null;
  /** Others that are due at once beside delayed jobs; null for the plan's own number. */
  readonly flood: number | null;
  /** Null leaves it to the store. */
  readonly executor: Executor | null;
  /** Where a bucket's objects lie. */
  readonly objects: ObjectsKind;
  /** What each verb of a bucket's objects takes in addition. */
  readonly latencyMs: number;
  /** A folder for CPU profiles of every measuring process. */
  readonly profileFolder: string | null;
}

export const usage = `npm run bench -- [--store sqlite|postgres|redis|bucket|stub] [--json] [--quick] [--alone] [--only WORK] [--jobs N]
                 [--rounds N] [--processes N] [--flood N] [--executor inline|thread] [--objects ${objectsKinds.join("|")}]
                 [--latency MS] [--profile FOLDER]

  --store     sqlite (default), postgres, redis: Millrace beside its peers; bucket: beside Millrace on a SQLite file; stub: the engine alone, over a store that does nothing
  --json      one JSON line per result instead of the table
  --quick     one round of few jobs, within 40 s, without the runs on a million jobs
              and without ${unhurriedWorks.join(", ")}, unless --only names them
  --alone     without the peers, to compare two versions of Millrace
  --only      ${works.join(", ")} or memory
  --jobs      jobs per measurement
  --rounds    how often each measurement is repeated; the median is reported
  --processes how many idle processes share a store, with --only idle
  --flood     how many others are due at once, with --only delayed
  --executor  where Millrace's SQLite runs; left out, the store decides
  --objects   where the objects of a bucket lie; disk unless said otherwise
  --latency   milliseconds that each request to them takes in addition
  --profile   write CPU profiles of all measuring processes to this folder`;

/** Over a store that does nothing there is nothing to wait for, and a job that failed never comes back. */
const needsRealStore = new Set<Work | "memory">(["latency", "idle", "memory", ...unhurriedWorks]);

export class UsageError extends Error {}

export function readCommandLine(words: readonly string[]): Asked {
  const given = parse(words);
  const store = oneOf("store", given.store ?? "sqlite", storeNames);
  const only = given.only === undefined ? null : oneOf("only", given.only, [...works, "memory"] as const);
  if (store === "stub" && only !== null && needsRealStore.has(only))
    throw new UsageError(`--only ${only} needs a real store.`);
  if (store !== "redis" && only === "footprint")
    throw new UsageError("--only footprint is about Redis, where jobs live in memory.");
  if (store !== "bucket" && only !== null && isBucketWork(only))
    throw new UsageError(`--only ${only} is about a bucket.`);
  if (store !== "bucket" && (given.objects !== undefined || given.latency !== undefined))
    throw new UsageError("--objects and --latency are about a bucket.");
  if (store !== "sqlite" && given.executor !== undefined) throw new UsageError("--executor is about SQLite.");
  if (given.processes !== undefined && only !== "idle")
    throw new UsageError("--processes is about idle fleets: give --only idle.");
  if (given.flood !== undefined && only !== "delayed")
    throw new UsageError("--flood is about delayed jobs: give --only delayed.");
  if (given.json === true && only === "memory")
    throw new UsageError("--only memory has no JSON form; run it without --json.");
  return {
    store,
    only,
    isJson: given.json === true,
    isQuick: given.quick === true,
    isAlone: given.alone === true,
    jobs: wholeOf("jobs", given.jobs),
    rounds: wholeOf("rounds", given.rounds),
    processes: wholeOf("processes", given.processes),
    flood: wholeOf("flood", given.flood),
    executor:
      given.executor === undefined ? null : oneOf("executor", given.executor, ["inline", "thread"] as const),
    objects: oneOf("objects", given.objects ?? "disk", objectsKinds),
    latencyMs: wholeOf("latency", given.latency) ?? 0,
    profileFolder: given.profile ?? null,
  };
}

function parse(words: readonly string[]) {
  try {
    return parseArgs({
      args: [...words],
      options: {
        store: { type: "string" },
        json: { type: "boolean" },
        quick: { type: "boolean" },
        alone: { type: "boolean" },
        only: { type: "string" },
        jobs: { type: "string" },
        rounds: { type: "string" },
        processes: { type: "string" },
        flood: { type: "string" },
        executor: { type: "string" },
        objects: { type: "string" },
        latency: { type: "string" },
        profile: { type: "string" },
      },
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function oneOf<Value extends string>(name: string, value: string, allowed: readonly Value[]): Value {
  const found = allowed.find((each) => each === value);
  if (found === undefined) throw new UsageError(`--${name} must be one of ${allowed.join(", ")}.`);
  return found;
}

function wholeOf(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new UsageError(`--${name} must be a whole number above 0.`);
  return value;
}
