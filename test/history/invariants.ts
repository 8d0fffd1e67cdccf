/**
 * What must hold of every run, by the numbers under which tests and comments speak of it. Only those that the history
 * checker can see are listed; the others (transactions) have tests of their own. Each has at
 * least one planted violation, which check-history.test.ts proves to be found.
 */
export const invariants = {
  1: "an acknowledged job is kept, or was removed by somebody who may",
  2: "every job stems from an enqueue or from another job's settle",
  3: "a job whose enqueue failed never exists",
  4: "one id makes one job, whatever is repeated",
  5: "a batch is there as a whole or not at all",
  7: "the jobs that are there are those made less those removed",
  8: "once faults are over and work is done, no job is left that should have ended",
  9: "the fences of a job grow, and none is given twice",
  10: "one fence belongs to one worker and is run once",
  11: "one settle is applied per fence, and its repeat is told so",
  12: "no write under a fence is accepted after a newer fence was given or its lease was revoked",
  13: "a job is claimed again only after its lease was settled, revoked or over by the store's clock",
  14: "a lease that was taken away is never extended",
  15: "a job that has ended is neither reclaimed nor promoted",
  16: "without faults no lease is lost, unless an operator revoked it",
  17: "a process does not reclaim what its own handlers are running",
  18: "every change of state is an arrow of the state machine, and no running job is removed",
  19: "a job that has ended stays so until it is replayed",
  20: "attempts count the claims, less those given back, and keep their maximum",
  21: "a job fails only with its attempts used up or by a final error, with the reason kept",
  22: "each job is in one state, the one that the feed told last",
  23: "the errors kept are those of the failed attempts",
  24: "times are in order: of the feed, and of creation, claim and end",
  25: "no job is claimed before it is due",
  26: "a due job is promoted in time",
  27: "the wait before a retry lies inside the policy's bounds",
  28: "one tick of a schedule makes at most one job, and a schedule that makes up for missed ticks leaves none out",
  31: "one claim hands out its jobs in their order",
  32: "no claim takes a job while a better one is ready",
  33: "no more than the cap of a limit, a queue or a key is held by running jobs, at any time",
  34: "what a gate holds is what runs",
  35: "in no time do more pass than the burst of a rate and its tokens",
  36: "one unique key is held by one live job",
  37: "nothing passes a gate that was closed, from the answer on until it opens",
  40: "a member of a flow is freed only when so many of those it comes after have ended as it wants",
  41: "a blocked member is freed once in a round, is not claimed before, and is not left blocked once that is decided",
  43: "the counts of a flow are those of a recount of its members",
  45: "a job whose cancel was asked for is not claimed again, and nothing lives in a flow that is cancelled",
  46: "a completed job was run, and no job is run more often than it was claimed",
  47: "what rides in a settle happens exactly when the settle is applied",
  49: "a read after an acknowledged enqueue sees the job",
  50: "the counts are those of a recount",
  51: "the feed is whole and in order, read at once or in pages",
  52: "only what somebody asked to remove is removed, no member before its flow, and an answered purge has removed all of it",
  54: "a stopped worker holds no lease",
  55: "nothing is left behind after everything was closed",
  56: "a job is claimed only by a worker that offers all that it requires",
  57: "of a lane only the first ready job is claimed, whatever its name",
} as const satisfies Readonly<Record<number, string>>;

export type Invariant = keyof typeof invariants;

export const invariantNumbers = Object.keys(invariants).map(Number) as Invariant[];
