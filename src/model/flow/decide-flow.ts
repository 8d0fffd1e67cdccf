/**
 * How a flow or a part ends, decided from its counts, and how a node ends that can never be freed.
 *
 *   flow    all nodes have ended        cancelled if that was requested; failed if a node failed or expired,
 *                                       unless failures are collected; else completed
 *   group   all nodes have ended        failed if more nodes than it tolerates did not complete
 *   race    N nodes have completed      completed, at once; failed as soon as that has become impossible
 *   any     all nodes were skipped      skipped; a race as soon as too many of them were, and no other has ended
 *
 * If it ends early (fail-fast, a group above its tolerance, a race that is won), its other nodes are to be cancelled.
 */
import { afterCancel, defaultCancelReason } from "../job/after-run.ts";
import type { EndReason } from "../job/end-reason.ts";
import type { Finish } from "../job/change.ts";
import { keepMsOf } from "../job/job-policy.ts";
import type { DecidedPolicy } from "../job/job-policy.ts";
import { terminalStates } from "../job/job-state.ts";
import type { TerminalState } from "../job/job-state.ts";
import type { Part } from "./graph.ts";
import type { Waits } from "./flow-waits.ts";

export type EndCounts = Readonly<Record<TerminalState, number>>;

/** The nodes of a flow itself, not of its parts: how many have not ended, and how the others ended. */
export interface FlowCounts extends EndCounts {
  readonly total: number;
  readonly live: number;
}

export interface FlowStanding {
  readonly part: Part;
  readonly waits: Waits;
  readonly policy: DecidedPolicy;
  readonly cancelAsked: boolean;
  readonly cancelReason: string | null;
  /** For a group: the list for its nodes could not be made. */
  readonly hasNoList: boolean;
}

export interface FlowDecision {
  /** Null as long as it is not decided. */
  readonly end: Finish | null;
  /** Whether its nodes that have not ended are to be cancelled. */
  readonly cancelsRest: boolean;
}

export function countEnds(members: Waits["members"]): EndCounts {
  const counts = terminalStates.map((state, at) => [state, members?.ended[at] ?? 0] as const);
  return Object.fromEntries(counts) as Record<TerminalState, number>;
}

export function liveMembers({ members }: Waits): number {
  return members === null ? 0 : members.total - members.ended.reduce((sum, count) => sum + count, 0);
}

export function countMembers(waits: Waits): FlowCounts {
  return { total: waits.members?.total ?? 0, live: liveMembers(waits), ...countEnds(waits.members) };
}

function isOnlySkipped({ members }: Waits): boolean {
  const { skipped, ...others } = countEnds(members);
  return skipped > 0 && Object.values(others).every((count) => count === 0);
}

/** Reads the counts of the group, because the slack of a capped map is not counted. */
function hasLost({ tolerate }: Extract<Part, { readonly kind: "group" }>, { members }: Waits): boolean {
  const { completed: _, ...others } = countEnds(members);
  return Object.values(others).reduce((sum, count) => sum + count, 0) > tolerate;
}

/** Whether a failure in a flow or a part has cancelled its other nodes. Cancelled nodes of a race have lost it. */
export function hasCancelledRest(part: Part, waits: Waits): boolean {
  switch (part.kind) {
    case "flow":
      return waits.slack < 0;
    case "group":
      return hasLost(part, waits);
    case "race":
      return false;
  }
}

export function decideFlow(flow: FlowStanding): FlowDecision {
  const { part, waits, policy, cancelAsked } = flow;
  const ended = countEnds(waits.members);
  const areOver = liveMembers(waits) === 0;
  const isLost = part.kind === "group" ? hasLost(part, waits) : waits.slack < 0;
  const end = (to: "completed" | "failed", reason: EndReason<"failed"> | null): Finish => ({
    ...{ to, event: to, reason, result: null, keepMs: keepMsOf(policy, to) },
  });
  const cancelled = afterCancel(policy, flow.cancelReason ?? defaultCancelReason);
  // A race is lost as soon as too many nodes were skipped; none has failed.
  const isSkipped = isOnlySkipped(waits) && (areOver || (part.kind === "race" && isLost));
  if (isSkipped && !cancelAsked) return { end: afterImpossible(policy), cancelsRest: false };
  switch (part.kind) {
    case "flow": {
      if (!areOver) return { end: null, cancelsRest: isLost };
      const hasFailed = ended.failed + ended.expired > 0;
      if (cancelAsked && !(isLost && hasFailed)) return { end: cancelled, cancelsRest: false };
      const isFailed = hasFailed && part.failureMode !== "collect";
      return { end: isFailed ? end("failed", "node-failed") : end("completed", null), cancelsRest: false };
    }
    case "group": {
      if (!areOver) return { end: null, cancelsRest: isLost };
      if (cancelAsked) return { end: cancelled, cancelsRest: false };
      if (flow.hasNoList) return { end: end("failed", "no-list"), cancelsRest: false };
      return { end: isLost ? end("failed", "too-many-failed") : end("completed", null), cancelsRest: false };
    }
    case "race": {
      if (waits.need <= 0 && !isLost) return { end: end("completed", null), cancelsRest: part.cancelsRest };
      if (cancelAsked) return { end: areOver || isLost ? cancelled : null, cancelsRest: false };
      return { end: isLost ? end("failed", "nobody-won") : null, cancelsRest: false };
    }
  }
}

/** The end of a node that waits for something that can no longer happen. */
export function afterImpossible(policy: DecidedPolicy): Finish {
  const reason: EndReason<"skipped"> = "unreachable";
  return {
    ...{ to: "skipped", event: "skipped", reason, result: null },
    keepMs: keepMsOf(policy, "skipped"),
  };
}
