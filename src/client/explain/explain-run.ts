/** What a durable run waits for, in a sentence, and when the first of its times is over. */
import { readRun } from "../../engine/durable/read-run.ts";
import type { Needs } from "../../engine/services.ts";
import type { RunStep } from "../../model/durable/run-steps.ts";
import { durationText } from "../../model/duration.ts";
import { quoteNames } from "../../model/name.ts";

export interface RunExplanation {
  readonly why: string;
  readonly expectedAt: number | null;
}

/** The waits that are named; a run may have thousands. */
const namedMax = 5;

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
