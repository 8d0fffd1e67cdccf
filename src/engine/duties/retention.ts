/**
 * Retention: finished jobs, feed records, keys and documents leave once nobody is promised them any more. Always in small bites,
 * never one giant delete, and each kind for itself: one that cannot be pruned does not keep the others.
 */
import { terminalStates } from "../../model/job-state.ts";
import type { TerminalState } from "../../model/job-state.ts";
import type { PruneRequest } from "../../store/operations.ts";
import type { Engine } from "../engine.ts";
import { answersWithin } from "../race.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { itemMaxMs, Quarantine } from "./quarantine.ts";

const bitesPerRunMax = 20;
/** What is kept long may leave late by a thousandth of it, so that an idle store is not asked in vain every time. */
const lateShare = 1000;
const runsBetweenMax = 10;

export function retentionDuty(engine: Engine, tuning: Tuning): Duty {
  const requests = pruneRequests(engine, tuning.batchMax);
  const quarantine = new Quarantine(engine.platform);
  // Per kind, where the last run stopped: what is kept longer is not looked at again in every run.
  const cursors = new Map<string, string | null>();
  // Per kind, how many more runs pass it over.
  const resting = new Map<string, number>();

  function isResting(kind: string): boolean {
    const runs = resting.get(kind) ?? 0;
    resting.set(kind, Math.max(0, runs - 1));
    return runs > 0;
  }

  async function prune(kind: string, request: PruneRequest): Promise<{ removed: number; hasMore: boolean }> {
    let removed = 0;
    for (let bite = 0; bite < bitesPerRunMax; bite++) {
      const answer = await engine.store.prune(
        request.what === "history" ? { ...request, cursor: cursors.get(kind) ?? null } : request,
      );
      cursors.set(kind, answer.cursor);
      removed += answer.removed;
      if (!answer.more) return { removed, hasMore: false };
    }
    return { removed, hasMore: true };
  }

  return {
    name: "retention",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async run(isAsked = false) {
      const outcomes: Record<string, number> = {};
      const failures: unknown[] = [];
      let processed = 0;
      let visited = 0;
      let hasMore = false;
      for (const [kind, request] of requests) {
        if (quarantine.has(kind) || (isResting(kind) && !isAsked)) continue;
        visited += 1;
        try {
          const pruned = await answersWithin(engine.platform, prune(kind, request), itemMaxMs);
          quarantine.succeeded(kind);
          outcomes[kind] = pruned.removed;
          processed += pruned.removed;
          hasMore ||= pruned.hasMore;
          if (!pruned.hasMore) resting.set(kind, runsBetween(request, tuning.sleepMaxMs) - 1);
        } catch (error) {
          failures.push(error);
          quarantine.failed(kind, error);
          engine.log.error("duty retention: a kind could not be pruned", { kind, error });
        }
      }
      // Nothing went: the store is away, and the run as a whole is tried again sooner than after the sleep.
      if (visited > 0 && failures.length === visited) throw failures[0];
      return { processed, errors: failures.length, outcomes, hasMore };
    },
  };
}

/** One: in every run. */
function runsBetween(request: PruneRequest, sleepMs: number): number {
  const keptMs = "olderThanMs" in request ? request.olderThanMs : 0;
  return Math.min(runsBetweenMax, Math.max(1, Math.floor(keptMs / lateShare / sleepMs)));
}

function pruneRequests(
  { settings: { retention, feedKeepMs } }: Engine,
  max: number,
): readonly (readonly [kind: string, request: PruneRequest])[] {
  const keptMs = (outcome: TerminalState): number =>
    outcome === "completed"
      ? retention.completedMs
      : outcome === "failed"
        ? retention.failedMs
        : retention.otherMs;
  const history = terminalStates.map((outcome) => {
    const olderThanMs = keptMs(outcome);
    const request = { what: "history", outcome, queue: null, exceptQueues: [], olderThanMs, max } as const;
    return [outcome, { ...request, cursor: null }] as const;
  });
  return [
    ...history,
    ["kept", { what: "kept", max }],
    // Not by the name of the request: jobs can be expired too.
    ["documents", { what: "expired", max }],
    ["feed", { what: "feed", olderThanMs: feedKeepMs, max }],
  ];
}
