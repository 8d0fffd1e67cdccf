/**
 * What doctor says of durable runs that workers handed back because they lack the version of the handler that the runs
 * began with. Registrations name no versions, so it is read from the attempt logs of runs that wait to be claimed
 * again.
 */
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { HandBackNote } from "../../model/job/attempt-log.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { Finding } from "./finding.ts";

/** How many waiting jobs are looked at, newest first. */
const lookedAtMax = 10_000;
const pageMax = 500;
const kindsMax = 20;

interface HandedBack {
  readonly job: JobRecord;
  note: HandBackNote;
  count: number;
}

export async function runFindings(store: Pick<Store, "findJobs">): Promise<readonly Finding[]> {
  const found = new Map<string, HandedBack>();
  let cursor: string | null = null;
  let left = lookedAtMax;
  do {
    const page = await store.findJobs({
      filter: { states: ["scheduled", "ready"] },
      max: pageMax,
      scanMax: pageMax,
      cursor,
    });
    for (const job of page.jobs) noteJob(found, job);
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

function noteJob(found: Map<string, HandedBack>, job: JobRecord): void {
  if (job.durable === 0) return;
  const { handedBack: note } = readAttemptLog(job.attempts);
  if (note?.reason !== "version-missing") return;
  // The message names the version.
  const key = JSON.stringify([job.queue, job.name, note.message]);
  const known = found.get(key);
  if (known === undefined) {
    found.set(key, { job, note, count: 1 });
    return;
  }
  known.count += 1;
  if (note.at > known.note.at) known.note = note;
}

function findingOf({ job: { queue, name }, note, count }: HandedBack): Finding {
  const runs = count === 1 ? "One run" : `${count} runs`;
  return {
    check: "versions",
    problem: `${runs} of ${JSON.stringify(name)} in the queue ${JSON.stringify(queue)} ${count === 1 ? "was" : "were"} handed back, last by ${note.worker}: ${note.message}`,
    advice:
      "Start a worker whose handler has that version: handler(job, code, { older: { VERSION: oldCode } }).",
  };
}
