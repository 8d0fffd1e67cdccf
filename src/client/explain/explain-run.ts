/** What a durable run waits for, in a sentence, and when the first of its times is over. */
import { readRun, readVersions } from "../../engine/durable/read-run.ts";
import { servingWorkers, workersWithVersion } from "../../engine/fleet/registration.ts";
import type { LiveWorker } from "../../engine/fleet/registration.ts";
import type { Needs } from "../../engine/services.ts";
import type { RunStep } from "../../model/durable/run-steps.ts";
import { durationText } from "../../model/duration.ts";
import { quoteNames } from "../../model/name.ts";
import type { JobRecord } from "../../store/records.ts";

export interface RunExplanation {
  readonly why: string;
  readonly expectedAt: number | null;
}

/** The waits that are named; a run may have thousands. */
const namedMax = 5;

/** Said of a run that no live worker could go on with, although one has a handler for its job; empty for any other. */
export async function missingVersion(
  needs: Needs<"store">,
  { id, queue, name, durable }: Pick<JobRecord, "id" | "queue" | "name" | "durable">,
  workers: readonly LiveWorker[],
): Promise<string> {
  const serving = durable === 0 ? [] : servingWorkers(workers, { queue, name });
  if (serving.length === 0) return "";
  const [version = null] = await readVersions(needs, [id]);
  if (version === null || workersWithVersion(serving, name, version).length > 0) return "";
  return ` It began with version ${version} of its handler, which no live worker has.`;
}

/** Null for a job that waits for nothing as a run: it is not durable, or its attempt only failed. */
export async function explainRun(needs: Needs<"store">, id: string): Promise<RunExplanation | null> {
  const run = await readRun(needs, id);
  const waits = run?.steps.filter(({ state }) => state === "waiting") ?? [];
  if (run === null || waits.length === 0) return null;
  const named = waits.slice(0, namedMax).map((wait) => waitText(wait, run.now));
  const more = waits.length - named.length;
  const all = more === 0 ? named : [...named, `${more} more`];
  const times = waits.flatMap(({ until }) => (until === null ? [] : [until]));
  return {
    why: `It waits ${all.join(", ")}.`,
    expectedAt: times.length === 0 ? null : Math.min(...times),
  };
}

function waitText({ call, kind, signal, businessKey, until }: RunStep, now: number): string {
  const left = until === null ? "" : durationText(Math.max(0, until - now));
  const atMost = until === null ? "" : ` for ${left} at most`;
  switch (kind) {
    case "sleep":
      return `until the sleep ${quoteNames([call])} is over in ${left}`;
    case "wait":
      return `for the signal ${quoteNames([signal ?? call])}${businessKey === null ? "" : ` at the key ${quoteNames([businessKey])}`}${atMost}`;
    case "approval":
      return `for the approval ${quoteNames([signal ?? call])}${atMost}`;
    case "invoke":
      return `for the job of ${quoteNames([call])}`;
    default:
      return `to run ${quoteNames([call])} again in ${left}`;
  }
}
