/** Nothing lost, nothing invented: invariants 1 to 5, 7, 36 and 49. */
import type { SubmitUnit } from "../../../src/store/operations.ts";
import type { NewJob } from "../../../src/store/records.ts";
import { isTerminal } from "../../../src/model/job/job-state.ts";
import { firingOf } from "../firing-of.ts";
import { mayHaveHappened, pushTo } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

export function* checkAcceptance(ledger: Ledger): Generator<Violation> {
  yield* acknowledgedJobsExist(ledger);
  yield* jobsStemFromEnqueues(ledger);
  yield* idsAreMadeOnce(ledger);
  yield* batchesAreWhole(ledger);
  yield* jobsAddUp(ledger);
  yield* uniqueKeysHoldOneJob(ledger);
  yield* enqueuedJobsAreSeen(ledger);
}

const isDeleted = (ledger: Ledger, id: string): boolean =>
  ledger.timelines.get(id)?.some(({ kind }) => kind === "deleted") ?? false;

function* acknowledgedJobsExist(ledger: Ledger): Generator<Violation> {
  for (const operation of ledger.evidence.operations) {
    if (operation.seen !== "ok") continue;
    const ids =
      operation.kind === "enqueue"
        ? (operation.got ?? [])
        : operation.kind === "submit"
          ? (operation.answer ?? []).flatMap((answer) => (answer.kind === "ok" ? answer.ids : []))
          : [];
    for (const id of ids)
      if (!ledger.records.has(id) && !isDeleted(ledger, id))
        yield { invariant: 1, id, message: `the acknowledged job ${id} is neither kept nor deleted` };
  }
}

function* jobsStemFromEnqueues(ledger: Ledger): Generator<Violation> {
  for (const id of new Set([...ledger.records.keys(), ...ledger.timelines.keys()]))
    if (!ledger.specs.has(id)) yield { invariant: 2, id, message: `nobody enqueued ${id}` };
  const possible = new Set<string>();
  const failed = new Set<string>();
  for (const operation of ledger.evidence.operations) {
    const jobs = jobsOf(operation);
    if (jobs.length > 0)
      for (const { id } of jobs) (mayHaveHappened(operation as never) ? possible : failed).add(id);
  }
  for (const id of failed)
    if (!possible.has(id) && ledger.timelines.has(id))
      yield { invariant: 3, id, message: `every enqueue of ${id} failed, and yet it exists` };
  yield* applicationsAreToldTheTruth(ledger);
}

/** By the input, which no two jobs share: a minted id is not known to somebody whose enqueue failed. */
function* applicationsAreToldTheTruth(ledger: Ledger): Generator<Violation> {
  const outcomes = new Map<string, Set<string>>();
  for (const operation of ledger.evidence.operations) {
    if (operation.kind !== "enqueue") continue;
    for (const input of operation.inputs)
      outcomes.set(input, (outcomes.get(input) ?? new Set()).add(operation.seen));
  }
  for (const id of ledger.timelines.keys()) {
    const seen = outcomes.get(ledger.specs.get(id)?.[0]?.input ?? "");
    if (seen?.size === 1 && seen.has("failed"))
      yield {
        invariant: 3,
        id,
        message: `the application was told that ${id} was not enqueued, and yet it exists`,
      };
  }
}

function jobsOf(operation: Ledger["evidence"]["operations"][number]): readonly NewJob[] {
  if (operation.kind === "submit") return operation.request.flatMap(({ jobs }) => jobs);
  if (operation.kind === "settleIfLeased" || operation.kind === "recordIfLeased")
    return operation.request.flatMap(({ effects }) => effects?.jobs ?? []);
  return [];
}

function* idsAreMadeOnce(ledger: Ledger): Generator<Violation> {
  for (const [id, events] of ledger.timelines) {
    let isThere = false;
    for (const { kind } of events) {
      if (kind === "deleted") isThere = false;
      if (kind !== "submitted") continue;
      if (isThere) yield { invariant: 4, id, message: `${id} was made twice` };
      isThere = true;
    }
  }
}

function* batchesAreWhole(ledger: Ledger): Generator<Violation> {
  const checked = new Set<SubmitUnit["jobs"]>();
  for (const operation of ledger.evidence.operations) {
    if (operation.kind !== "submit") continue;
    for (const { jobs } of operation.request) {
      // Schedules that fire together and are refused together fire one by one.
      const ids = jobs.filter((job) => job.unique === null && firingOf(job) === null).map(({ id }) => id);
      if (ids.length < 2 || checked.has(jobs)) continue;
      checked.add(jobs);
      const numbers = ids.map((id) => submittedIn(ledger, id));
      if (numbers.every(({ size }) => size === 0)) continue;
      const isTogether = [...(numbers[0] as Set<number>)].some((number) =>
        numbers.every((each) => each.has(number)),
      );
      if (!isTogether)
        yield { invariant: 5, message: `the batch ${ids.join(", ")} was not made in one step` };
    }
  }
}

function submittedIn(ledger: Ledger, id: string): Set<number> {
  const events = ledger.timelines.get(id) ?? [];
  return new Set(events.filter(({ kind }) => kind === "submitted").map(({ number }) => number));
}

function* jobsAddUp(ledger: Ledger): Generator<Violation> {
  let created = 0;
  let deleted = 0;
  for (const events of ledger.timelines.values()) {
    for (const { kind } of events) {
      if (kind === "submitted") created += 1;
      if (kind === "deleted") deleted += 1;
    }
  }
  const { length } = ledger.evidence.snapshot.jobs;
  if (created - deleted !== length)
    yield { invariant: 7, message: `${created} jobs made and ${deleted} deleted, but ${length} are there` };
}

/** Keys held by time are left out: they may outlive their job, and that is wanted. */
function* uniqueKeysHoldOneJob(ledger: Ledger): Generator<Violation> {
  const holders = new Map<string, string>();
  const held = new Map<string, string>();
  const free = (id: string): void => {
    const key = held.get(id);
    held.delete(id);
    if (key !== undefined && holders.get(key) === id) holders.delete(key);
  };
  for (const { events } of ledger.evidence.snapshot.feed) {
    for (const { id, kind, state } of events) {
      const specs = ledger.specs.get(id) ?? [];
      const unique =
        specs.length > 0 && specs.every((spec) => spec.unique?.key === specs[0]?.unique?.key)
          ? specs[0]?.unique
          : null;
      const holds =
        unique !== null && unique !== undefined && specs.every((spec) => spec.unique?.hold === unique.hold);
      if (kind === "replaced" || state === null || isTerminal(state)) free(id);
      else if (kind === "claimed" && holds && unique.hold === "started") free(id);
      else if (holds && (kind === "submitted" || (kind === "replayed" && unique.hold === "end"))) {
        if (typeof unique.hold === "number") continue;
        const holder = holders.get(unique.key);
        if (holder !== undefined && holder !== id)
          yield {
            invariant: 36,
            id,
            message: `${id} came to life while ${holder} held the key ${unique.key}`,
          };
        holders.set(unique.key, id);
        held.set(id, unique.key);
      }
    }
  }
  yield* holdersHaveTheKey(ledger);
}

function* holdersHaveTheKey(ledger: Ledger): Generator<Violation> {
  const keys = new Map<string, string[]>();
  for (const [id, specs] of ledger.specs)
    for (const { unique } of specs) if (unique !== null) pushTo(keys, id, unique.key);
  for (const operation of ledger.evidence.operations) {
    if (operation.kind !== "submit") continue;
    for (const [index, unit] of operation.request.entries()) {
      const answer = operation.answer?.[index];
      if (answer?.kind !== "ok") continue;
      for (const [place, job] of unit.jobs.entries()) {
        const id = answer.ids[place] as string;
        const isOther = id !== job.id;
        if (isOther && (job.unique === null || !(keys.get(id)?.includes(job.unique.key) ?? false)))
          yield { invariant: 36, id, message: `${job.id} was answered with ${id}, which has another key` };
      }
    }
  }
}

function* enqueuedJobsAreSeen(ledger: Ledger): Generator<Violation> {
  for (const operation of ledger.evidence.operations)
    if (
      operation.kind === "read-back" &&
      operation.seen === "ok" &&
      !operation.found &&
      !isDeleted(ledger, operation.id)
    )
      yield {
        invariant: 49,
        id: operation.id,
        message: `${operation.id} was enqueued, but a read did not see it`,
      };
}
