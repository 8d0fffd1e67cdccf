/**
 * What doctor says of durable runs that began with a version of their handler which no live worker has: by the
 * registrations of the workers, before such a run is claimed; and by the attempt logs of those that were handed back.
 */
import {
  readLiveProcesses,
  readVersions,
  whoServes,
  workersOf,
  workersWithVersion,
} from "../../client/workers/live-workers.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { HandBackNote } from "../../model/job/attempt-log.ts";
import type { JobRecord } from "../../store/records.ts";
import type { LiveWorker } from "../../client/workers/live-workers.ts";
import type { Store } from "../../store/store.ts";
import type { Finding } from "./finding.ts";

/** How many live jobs are looked at, newest first. */
const lookedAtMax = 10_000;
const pageMax = 500;
const kindsMax = 20;

interface Stuck {
  readonly job: JobRecord;
  /** Null for runs that no worker has met yet. */
  note: HandBackNote | null;
  readonly version: number | null;
  count: number;
}

export async function runFindings(
  store: Pick<Store, "findJobs" | "readDocs" | "readJournal">,
): Promise<readonly Finding[]> {
  const workers = (await readLiveProcesses(store)).flatMap(workersOf);
  const found = new Map<string, Stuck>();
  let cursor: string | null = null;
  let left = lookedAtMax;
  do {
    const page = await store.findJobs({
      filter: { states: ["suspended", "scheduled", "ready"] },
      max: pageMax,
      scanMax: pageMax,
      cursor,
    });
    const runs = page.jobs.filter(({ durable }) => durable !== 0);
    const served = runs.filter((run) => whoServes(workers, run).length > 0);
    const versions = await readVersions(
      { store },
      served.map(({ id }) => id),
    );
    for (const run of runs) noteRun(found, run, versions[served.indexOf(run)] ?? null, workers);
    ({ cursor } = page);
    left -= pageMax;
  } while (cursor !== null && left > 0);
  const all = [...found.values()];
  const more = all.length - kindsMax;
  const findings = all.slice(0, kindsMax).map(findingOf);
  if (more > 0)
    findings.push({
      check: "versions",
      problem: `Runs of ${more} more jobs and versions were handed back.`,
      advice: "See millrace explain ID of each.",
    });
  return findings;
}

function noteRun(
  found: Map<string, Stuck>,
  job: JobRecord,
  version: number | null,
  workers: readonly LiveWorker[],
): void {
  const isMissing =
    version !== null && workersWithVersion(whoServes(workers, job), job.name, version).length === 0;
  const { handedBack } = readAttemptLog(job.attempts);
  const note = handedBack?.reason === "version-missing" ? handedBack : null;
  // A worker that has the version may have come since the run was handed back.
  if (version === null ? note === null : !isMissing) return;
  // The message of a note names the version.
  const key = JSON.stringify([job.queue, job.name, note?.message ?? version]);
  const known = found.get(key);
  if (known === undefined) {
    found.set(key, { job, note, version, count: 1 });
    return;
  }
  known.count += 1;
  if (note !== null && note.at > (known.note?.at ?? 0)) known.note = note;
}

function findingOf({ job: { queue, name }, note, version, count }: Stuck): Finding {
  const runs = count === 1 ? "One run" : `${count} runs`;
  const of = `${runs} of ${JSON.stringify(name)} in the queue ${JSON.stringify(queue)}`;
  return {
    check: "versions",
    problem:
      note === null
        ? `${of} began with version ${version} of the handler, which no live worker has.`
        : `${of} ${count === 1 ? "was" : "were"} handed back, last by ${note.worker}: ${note.message}`,
    advice:
      "Start a worker whose handler has that version: handler(job, code, { older: { VERSION: oldCode } }).",
  };
}
