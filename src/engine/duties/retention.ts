/**
 * Retention: finished jobs, feed records, keys and documents leave once nobody is promised them any more. Always in small bites,
 * never one giant delete.
 */
import { terminalStates } from "../../model/job-state.ts";
import type { TerminalState } from "../../model/job-state.ts";
import type { PruneRequest } from "../../store/operations.ts";
import type { Engine } from "../engine.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

const bitesPerRunMax = 20;

export function retentionDuty(engine: Engine, tuning: Tuning): Duty {
  const { retention, feedKeepMs } = engine.settings;
  const keptMs = (outcome: TerminalState): number =>
    outcome === "completed"
      ? retention.completedMs
      : outcome === "failed"
        ? retention.failedMs
        : retention.otherMs;
  const requests: readonly (readonly [string, PruneRequest])[] = [
    ...terminalStates.map((outcome) => {
      const olderThanMs = keptMs(outcome);
      return [
        outcome,
        {
          what: "history",
          outcome,
          queue: null,
          exceptQueues: [],
          olderThanMs,
          max: tuning.batchMax,
          cursor: null,
        },
      ] as const;
    }),
    ["kept", { what: "kept", max: tuning.batchMax }],
    ["expired", { what: "expired", max: tuning.batchMax }],
    ["feed", { what: "feed", olderThanMs: feedKeepMs, max: tuning.batchMax }],
  ];
  // Per kind, where the last run stopped: what is kept longer is not looked at again in every run.
  const cursors = new Map<string, string | null>();
  return {
    name: "retention",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    async run() {
      const outcomes: Record<string, number> = {};
      let processed = 0;
      let hasMore = false;
      for (const [kind, request] of requests) {
        for (let bite = 0; bite < bitesPerRunMax; bite++) {
          const answer = await engine.store.prune(
            request.what === "history" ? { ...request, cursor: cursors.get(kind) ?? null } : request,
          );
          cursors.set(kind, answer.cursor);
          outcomes[kind] = (outcomes[kind] ?? 0) + answer.removed;
          processed += answer.removed;
          if (!answer.more) break;
          hasMore ||= bite === bitesPerRunMax - 1;
        }
      }
      return { processed, errors: 0, outcomes, hasMore };
    },
  };
}
