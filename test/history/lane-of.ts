/** The lane of a job, as the run reads it out of what was submitted, and what keeps the job in its place there. */
import type { EventKind } from "../../src/model/event-kind.ts";
import type { Lane } from "./history.ts";
import type { Ledger } from "./ledger.ts";

/** While a job of a FIFO key waits behind one of these it has its place and its permit. */
export const heldRetries: ReadonlySet<EventKind> = new Set([
  "retry-scheduled",
  "snoozed",
  "reclaimed",
  "throttled",
]);

/** Null for a job without one, and for one of which several are known: submitted with two, replaced, submitted again. */
export function laneOf({ evidence, specs, reborn, timelines }: Ledger, id: string): Lane | null {
  const { laneOf: read } = evidence;
  if (read === undefined || reborn.has(id)) return null;
  const [first, ...others] = (specs.get(id) ?? []).map((spec) => read(spec));
  if (first === undefined || first === null || others.some((lane) => lane?.key !== first.key)) return null;
  return timelines.get(id)?.some(({ kind }) => kind === "replaced") === true ? null : first;
}
