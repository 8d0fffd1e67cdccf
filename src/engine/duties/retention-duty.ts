/**
 * Retention: prunes finished jobs, feed records, keys and documents past their retention. The times and counts are the
 * store's (store-retention.ts) or the queue's own (model/fleet/queue-policy.ts), read again in every pass. If they
 * cannot be read, nothing that depends on them is pruned. Pruning goes in small batches, and each kind by itself: one
 * that cannot be pruned does not block the others. Only the leader prunes.
 */
import { gateName, queueGateKey } from "../../model/limits/gate.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import { queuePolicyOf, readBody } from "../../model/limits/limit.ts";
import { keptCountOf, keptMsOf } from "../../model/fleet/queue-policy.ts";
import { addByPartition } from "../../store/partitioned/by-partition.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";
import type { StateCount } from "../../store/records.ts";
import type { PruneRequest } from "../../store/upkeep.ts";
import type { Needs } from "../services.ts";
import { allGates } from "../limits/change-gate.ts";
import type { DecidedTimes } from "../policies/store-retention.ts";
import { answersWithin } from "../calls/settles-within.ts";
import { idlePass } from "./duty.ts";
import type { Duty } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { itemMaxMs, Quarantine } from "./quarantine.ts";
import { SkippedPasses } from "./skipped-passes.ts";

const bitesPerPassMax = 20;

type Prune = readonly [kind: string, request: PruneRequest];

interface Kind {
  readonly kind: string;
  readonly request: PruneRequest;
  readonly skipping: SkippedPasses;
}

interface Pruned {
  readonly pruned: number;
  readonly prunedIn: ByPartition | undefined;
  readonly hasMore: boolean;
}

export function retentionDuty(
  needs: Needs<"store" | "platform" | "log" | "retention" | "leadership">,
  tuning: Tuning,
): Duty {
  const withSkipping = ([kind, request]: Prune): Kind => {
    return {
      kind,
      request,
      skipping: new SkippedPasses(promisedMs(request), tuning.sleepMaxMs, needs.store.partitions),
    };
  };
  const untimed = untimedPrunes(tuning.batchMax).map(withSkipping);
  let timed: readonly Kind[] = [];
  let lastBounds = "";
  const quarantine = new Quarantine(needs.platform);
  // Where the last pass stopped, per kind, so that jobs that are kept longer are not read again in every pass.
  const cursors = new Map<string, string | null>();
  let counted: readonly Kind[] = [];

  /** The kinds that are pruned by the store's times and counts. If these change, no pass is skipped at first. */
  async function boundKinds(): Promise<readonly Kind[]> {
    const learning = Promise.all([needs.retention.learn(), queueBounds(needs)]);
    const [kept, queues] = await answersWithin(needs.platform, learning, itemMaxMs);
    if (JSON.stringify([kept, queues]) !== lastBounds) {
      lastBounds = JSON.stringify([kept, queues]);
      timed = timedPrunes(kept, queues, tuning.batchMax).map(withSkipping);
      counted = [];
      cursors.clear();
    }
    if (hasCounts(kept) || queues.some(([, own]) => hasCounts(own))) {
      const counts = await answersWithin(needs.platform, needs.store.countJobs(), itemMaxMs);
      counted = surplusPrunes(kept, queues, counts, tuning.batchMax).map(
        (prune) => counted.find(({ kind }) => kind === prune[0]) ?? withSkipping(prune),
      );
    }
    return [...timed, ...counted];
  }

  async function prune(kind: string, request: PruneRequest): Promise<Pruned> {
    let pruned = 0;
    let prunedIn: ByPartition | undefined;
    for (let bite = 0; bite < bitesPerPassMax; bite++) {
      const answer = await needs.store.prune(
        "cursor" in request ? { ...request, cursor: cursors.get(kind) ?? null } : request,
      );
      cursors.set(kind, answer.cursor);
      pruned += answer.pruned;
      prunedIn = addByPartition(prunedIn, answer.prunedIn);
      if (!answer.more) return { pruned, prunedIn, hasMore: false };
    }
    return { pruned, prunedIn, hasMore: true };
  }

  return {
    name: "retention",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(isAsked = false) {
      if (!isAsked && !needs.leadership.isLeader) return idlePass;
      const outcomes: Record<string, number> = {};
      const failures: unknown[] = [];
      let processed = 0;
      let processedIn: ByPartition | undefined;
      let visited = 0;
      let hasMore = false;
      const kinds = [...untimed];
      try {
        kinds.unshift(...(await boundKinds()));
      } catch (error) {
        visited += 1;
        failures.push(error);
        needs.log.error("duty retention: how long jobs are kept could not be read; none is pruned", {
          error,
        });
      }
      for (const { kind, request, skipping } of kinds) {
        if (quarantine.has(kind) || (skipping.isOn() && !isAsked)) continue;
        visited += 1;
        try {
          const done = await answersWithin(needs.platform, prune(kind, request), itemMaxMs);
          quarantine.succeeded(kind);
          outcomes[kind] = done.pruned;
          processed += done.pruned;
          processedIn = addByPartition(processedIn, done.prunedIn);
          hasMore ||= done.hasMore;
          // With too many jobs that have times of their own, the next pass would find as many again.
          if (!done.hasMore && (request.what !== "surplus" || done.pruned === 0)) skipping.begin();
        } catch (error) {
          failures.push(error);
          quarantine.failed(kind, error);
          needs.log.error("duty retention: a kind could not be pruned", { kind, error });
        }
      }
      // If every kind failed, the store is away: the pass fails as a whole and is repeated with backoff, not after the
      // sleep.
      if (visited > 0 && failures.length === visited) throw failures[0];
      const inPartitions = processedIn === undefined ? {} : { processedIn };
      return { processed, ...inPartitions, ...passedOver(needs, failures.length), outcomes, hasMore };
    },
  };
}

function promisedMs(request: PruneRequest): number {
  switch (request.what) {
    case "history":
    case "feed":
      return request.olderThanMs;
    case "kept":
      // These jobs say themselves how long they or their results are kept, and may say a minute.
      return 0;
    case "surplus":
      return Number.POSITIVE_INFINITY;
    case "expired":
      // Readers treat expired keys and documents as absent, so pruning only frees space and may be skipped as often as
      // allowed.
      return Number.POSITIVE_INFINITY;
  }
}

type QueueBounds = readonly (readonly [queue: string, own: KeptHistory])[];

/** The retention that operators have set for queues. */
async function queueBounds({ store }: Needs<"store">): Promise<QueueBounds> {
  const all: [string, KeptHistory][] = [];
  for await (const { gate } of allGates(store, queueGateKey(""))) {
    const { retention } = queuePolicyOf(readBody(gate.body));
    if (retention !== undefined) all.push([gateName(gate.key), retention]);
  }
  return all;
}

/** The times of a queue override the store's, longer ones and shorter ones. */
function timedPrunes(times: DecidedTimes, queues: QueueBounds, max: number): readonly Prune[] {
  const history = terminalStates.flatMap((outcome): Prune[] => {
    const request = { what: "history", outcome, max, cursor: null } as const;
    const own = queues.flatMap(([queue, kept]) => {
      const olderThanMs = keptMsOf(kept, outcome);
      return olderThanMs === undefined ? [] : [{ queue, olderThanMs }];
    });
    const olderThanMs = keptMsOf(times, outcome) ?? times.otherMs;
    const exceptQueues = own.map(({ queue }) => queue);
    return [
      [outcome, { ...request, queue: null, exceptQueues, olderThanMs }],
      ...own.map((each): Prune => [
        `${outcome} of ${JSON.stringify(each.queue)}`,
        { ...request, ...each, exceptQueues: [] },
      ]),
    ];
  });
  return [...history, ["feed", { what: "feed", olderThanMs: times.feedMs, max }]];
}

function hasCounts(kept: KeptHistory): boolean {
  return terminalStates.some((outcome) => typeof keptCountOf(kept, outcome) === "number");
}

/** The queues with more finished jobs of an outcome than they keep. A queue's own count overrides the store's. */
function surplusPrunes(
  kept: KeptHistory,
  queues: QueueBounds,
  counts: readonly StateCount[],
  max: number,
): readonly Prune[] {
  const own = new Map(queues);
  return terminalStates.flatMap((outcome) => {
    const finished = Map.groupBy(
      counts.filter(({ state }) => state === outcome),
      ({ queue }) => queue,
    );
    return [...finished].flatMap(([queue, parts]): Prune[] => {
      const ofQueue = keptCountOf(own.get(queue) ?? {}, outcome);
      const keep = ofQueue === undefined ? keptCountOf(kept, outcome) : ofQueue;
      const count = parts.reduce((sum, part) => sum + part.count, 0);
      if (typeof keep !== "number" || count <= keep) return [];
      const request = { what: "surplus", outcome, queue, keep, max, cursor: null } as const;
      return [[`${outcome} too many of ${JSON.stringify(queue)}`, request]];
    });
  });
}

/** Kinds whose items carry their own retention. */
function untimedPrunes(max: number): readonly Prune[] {
  return [
    ["kept", { what: "kept", max }],
    // Named "documents" and not "expired" as in the request, because jobs can be expired too.
    ["documents", { what: "expired", max }],
  ];
}
