/**
 * Retention: finished jobs, feed records, keys and documents are pruned once nobody is promised them any more. How long
 * that is, and how many jobs of a queue, the store says (store-retention.ts; of a queue its operator,
 * model/fleet/queue-policy.ts), asked anew in every pass; while it cannot be told, what depends on it stays. Pruning
 * goes in small bites, never as one giant statement, and each kind stands for itself: one that cannot be pruned does
 * not keep the others. Only the leader prunes.
 */
import { gateName, queueGateKey } from "../../model/limits/gate.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import { terminalStates } from "../../model/job/job-state.ts";
import { readBody } from "../../model/limits/limit.ts";
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
  readonly rest: SkippedPasses;
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
  const withRest = ([kind, request]: Prune): Kind => {
    return {
      kind,
      request,
      rest: new SkippedPasses(promisedMs(request), tuning.sleepMaxMs, needs.store.partitions),
    };
  };
  const untimed = untimedPrunes(tuning.batchMax).map(withRest);
  let timed: readonly Kind[] = [];
  let emitted = "";
  const quarantine = new Quarantine(needs.platform);
  // Per kind, where the last pass stopped, so that jobs which are kept longer are not looked at in every pass.
  const cursors = new Map<string, string | null>();
  let counted: readonly Kind[] = [];

  /** What is pruned by the times and counts of the store; a change of them begins their rests anew. */
  async function boundKinds(): Promise<readonly Kind[]> {
    const learning = Promise.all([needs.retention.learn(), queueBounds(needs)]);
    const [kept, queues] = await answersWithin(needs.platform, learning, itemMaxMs);
    if (JSON.stringify([kept, queues]) !== emitted) {
      emitted = JSON.stringify([kept, queues]);
      timed = timedPrunes(kept, queues, tuning.batchMax).map(withRest);
      counted = [];
      cursors.clear();
    }
    if (hasCounts(kept) || queues.some(([, own]) => hasCounts(own))) {
      const counts = await answersWithin(needs.platform, needs.store.countJobs(), itemMaxMs);
      counted = surplusPrunes(kept, queues, counts, tuning.batchMax).map(
        (prune) => counted.find(({ kind }) => kind === prune[0]) ?? withRest(prune),
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
      for (const { kind, request, rest } of kinds) {
        if (quarantine.has(kind) || (rest.isOn() && !isAsked)) continue;
        visited += 1;
        try {
          const done = await answersWithin(needs.platform, prune(kind, request), itemMaxMs);
          quarantine.succeeded(kind);
          outcomes[kind] = done.pruned;
          processed += done.pruned;
          processedIn = addByPartition(processedIn, done.prunedIn);
          hasMore ||= done.hasMore;
          // Too many that have times of their own: they will not be fewer in the next pass.
          if (!done.hasMore && (request.what !== "surplus" || done.pruned === 0)) rest.begin();
        } catch (error) {
          failures.push(error);
          quarantine.failed(kind, error);
          needs.log.error("duty retention: a kind could not be pruned", { kind, error });
        }
      }
      // Where every kind failed, the store is away: the pass fails as a whole and is made again sooner than after the
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
      // Readers treat expired keys and documents as absent, so pruning only wins back their room: rest as long as
      // allowed.
      return Number.POSITIVE_INFINITY;
  }
}

type QueueBounds = readonly (readonly [queue: string, own: KeptHistory])[];

/** What operators have set of queues. */
async function queueBounds({ store }: Needs<"store">): Promise<QueueBounds> {
  const all: [string, KeptHistory][] = [];
  for await (const { gate } of allGates(store, queueGateKey(""))) {
    const { retention } = readBody(gate.body).queue ?? {};
    if (retention !== undefined) all.push([gateName(gate.key), retention]);
  }
  return all;
}

/** A queue's own times come before the store's, longer ones and shorter ones. */
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

/**
 * The queues that have more finished jobs of an outcome than they keep; a queue's own count comes before the store's.
 */
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

/** What says itself how long it is kept. */
function untimedPrunes(max: number): readonly Prune[] {
  return [
    ["kept", { what: "kept", max }],
    // Named "documents" and not "expired" as in the request, because jobs can be expired too.
    ["documents", { what: "expired", max }],
  ];
}
