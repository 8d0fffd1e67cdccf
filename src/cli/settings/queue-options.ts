/**
 * The settings of a queue as options: its bounds (bounds.ts), and `--total 40`, `--local 10`, `--attempts 5`,
 * `--backoff 30s` or `--backoff 1s-5m`, `--keep completed=1d,failed=30d+1000` (an age, a count or both); `none` takes
 * one away.
 */
import type { QueueEdit } from "../../client/queues/queue-edit.ts";
import { durationText } from "../../model/duration.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import type { Backoff } from "../../model/job/retry-policy.ts";
import { orNone, text } from "../arguments/option-kinds.ts";
import type { ValuesOf } from "../arguments/option-kinds.ts";
import { quote, wrong } from "../arguments/wrong.ts";
import { boundOptions, boundsOf, count } from "./bounds.ts";

export const queueOptions = {
  ...boundOptions,
  total: count("slots over all live workers, shared out; none leaves it to the workers"),
  local: count("how many run at once in each worker; none leaves it to the workers"),
  attempts: count("how often a job is tried that does not say it itself"),
  backoff: orNone(
    text("TIME", "how long such a job waits for its next try: 30s, or from 1s doubling to 5m as 1s-5m"),
  ),
  keep: orNone({
    value: "TIMES",
    meaning: "how long, or how many, finished jobs are kept: completed=1d,failed=30d+1000,other=500",
    read: readKept,
  }),
};

const outcomes = ["completed", "failed", "other"] as const;

export function readQueueOptions({
  local,
  keep,
  backoff,
  total,
  attempts,
  ...bounds
}: ValuesOf<typeof queueOptions>): QueueEdit {
  const settings = {
    ...{ total, attempts, localConcurrency: local, retention: keep },
    backoff: typeof backoff === "string" ? readBackoffText(backoff) : backoff,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return { ...boundsOf(bounds), ...(Object.fromEntries(given) as QueueEdit) };
}

function readBackoffText(given: string): QueueEdit["backoff"] {
  const [from = "", to] = given.split("-");
  return to === undefined ? from : { kind: "exponential", from, to };
}

function readKept(given: string, name: string): QueueEdit["retention"] {
  const kept = given.split(",").map((part) => part.split("="));
  if (kept.some(([outcome, bound]) => !outcomes.some((each) => each === outcome) || !bound))
    throw wrong(`${name} must be ages and counts such as completed=1d,failed=30d+1000, not ${quote(given)}`);
  return Object.fromEntries(
    kept.map(([outcome, bound = ""]) => [outcome, Object.assign({}, ...bound.split("+").map(readBound))]),
  ) as QueueEdit["retention"];
}

/** Digits alone are a count: every age has a unit. */
function readBound(text: string): { age?: string; count?: number | null } {
  return /^\d+$/.test(text) ? { count: Number(text) } : text === "any" ? { count: null } : { age: text };
}

/** Nothing if the workers decide. */
export function formatBackoff(backoff: Backoff | null): string {
  if (backoff === null) return "";
  switch (backoff.kind) {
    case "fixed":
      return durationText(backoff.delayMs);
    case "linear":
    case "exponential":
      return `${durationText(backoff.fromMs)}-${durationText(backoff.toMs)}`;
    case "list":
      return backoff.delaysMs.map(durationText).join(",");
    case "custom":
      return backoff.name;
  }
}

export function formatKept(kept: KeptHistory | null): string {
  return outcomes
    .flatMap((outcome) => {
      const [ms, count] = [kept?.[`${outcome}Ms`], kept?.[`${outcome}Count`]];
      const bounds = [ms === undefined ? [] : durationText(ms), count === undefined ? [] : (count ?? "any")];
      return bounds.flat().length === 0 ? [] : [`${outcome}=${bounds.flat().join("+")}`];
    })
    .join(",");
}
