/**
 * The lane of a job, as what was submitted says it (src/model/routing/lane.ts): in which line it stands, which gates of
 * keys it asks for, and whether it holds that of its group while it waits for its retry, and once it has failed.
 */
import type { EventKind } from "../../src/model/events/event-kind.ts";
import { keyUsesOf } from "../../src/store/rules/gates/lane-change.ts";
import type { KeyUse } from "../../src/model/routing/lane.ts";
import type { FeedEvent, NewJob } from "../../src/store/records.ts";
import { policyOf } from "./policy-of.ts";

export interface Lane {
  readonly key: string;
  readonly uses: readonly KeyUse[];
  readonly holdsOnRetry: boolean;
  readonly holdsOnFailure: boolean;
}

/**
 * Null for a job without a lane, and for one that was submitted with several: which of them it has, nobody can tell.
 */
export function readLane(specs: readonly NewJob[]): Lane | null {
  const [first, ...others] = specs.map(laneOfSpec);
  const isOne = first !== undefined && others.every((other) => isSame(first, other));
  return isOne ? first : null;
}

function laneOfSpec(spec: NewJob): Lane | null {
  const { laneKey = null, laneGates = null } = spec;
  if (laneKey === null) return null;
  const uses = keyUsesOf({ laneGates });
  const { holdsGroup, holdsGroupFailed } = policyOf(spec);
  return { key: laneKey, uses, holdsOnRetry: holdsGroup === true, holdsOnFailure: holdsGroupFailed === true };
}

const isSame = (one: Lane | null, other: Lane | null): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

/** Ends of a lease behind which a job waits to be tried again. */
const waitsAgain: ReadonlySet<EventKind> = new Set(["retry-scheduled", "snoozed", "reclaimed", "throttled"]);

/** Whether the job keeps its rank over this event, as the first of its group again. */
export function keepsRank(lane: Lane | null | undefined, { kind }: Pick<FeedEvent, "kind">): boolean {
  return lane?.holdsOnRetry === true && waitsAgain.has(kind);
}

/** Whether a job that ran holds its group behind this event, because it has failed. */
export const holdsFailed = (lane: Lane | null | undefined, { kind }: Pick<FeedEvent, "kind">): boolean =>
  lane?.holdsOnFailure === true && kind === "failed";

/** What happens to a job that holds its group without an end of the hold, while it waits. */
const goesOn: ReadonlySet<EventKind> = new Set(["edited", "replayed"]);

/** Whether the job holds its group behind this event: as long as it waits, or once it has failed. */
export function keepsGroup(
  lane: Lane | null | undefined,
  event: Pick<FeedEvent, "kind" | "state">,
  didKeep: boolean,
): boolean {
  if (event.state !== "scheduled") return holdsFailed(lane, event);
  return keepsRank(lane, event) || (didKeep && goesOn.has(event.kind));
}
