/** How it all ends: invariants 8, 22, 46, 47, 50, 51, 54 and 55. */
import { isTerminal } from "../../../src/model/job/job-state.ts";
import type { FeedRecord, JobRecord } from "../../../src/store/records.ts";
import { recount, sortStateCounts } from "../../support/walk.ts";
import { lifeKey, pushTo, runsNoHandler } from "../ledger.ts";
import type { FencedWrite, Ledger, Violation } from "../ledger.ts";

export function* checkEnds(ledger: Ledger): Generator<Violation> {
  yield* everythingEnded(ledger);
  yield* statesAgree(ledger);
  yield* completionsHaveRuns(ledger);
  yield* effectsHappenOnce(ledger);
  yield* feedIsWhole(ledger);
  yield* stoppedWorkersHoldNothing(ledger);
  for (const [what, count] of Object.entries(ledger.evidence.leftovers))
    if (count !== 0)
      yield { invariant: 55, message: `${count} ${what} were left after everything was closed` };
}

function* everythingEnded(ledger: Ledger): Generator<Violation> {
  const { jobs, now } = ledger.evidence.snapshot;
  const isLater = ({ state, dueAt, ttlAt }: JobRecord): boolean =>
    (state === "scheduled" && dueAt > now) || (state === "suspended" && (ttlAt ?? 0) > now);
  for (const job of jobs)
    if (!isTerminal(job.state) && !isLater(job))
      yield {
        invariant: 8,
        id: job.id,
        message: `${job.id} is still ${job.state} after everything had time to end`,
      };
}

function* statesAgree(ledger: Ledger): Generator<Violation> {
  const { jobs, stateCounts } = ledger.evidence.snapshot;
  if (ledger.records.size !== jobs.length) yield { invariant: 22, message: "a job is there twice" };
  for (const [id, events] of ledger.timelines) {
    const emitted = events.at(-1)?.state ?? null;
    const kept = ledger.records.get(id)?.state ?? null;
    if (emitted !== kept)
      yield { invariant: 22, id, message: `${id} was last told to be ${emitted}, but is ${kept}` };
  }
  if (JSON.stringify(sortStateCounts(stateCounts)) !== JSON.stringify(recount(jobs)))
    yield { invariant: 50, message: "the counts per queue, name and state are not those of the jobs" };
}

function* completionsHaveRuns(ledger: Ledger): Generator<Violation> {
  const began = new Map<string, number>();
  for (const { id, kind } of ledger.evidence.effects)
    if (kind === "began") began.set(id, (began.get(id) ?? 0) + 1);
  for (const [id, events] of ledger.timelines) {
    const completed = events.filter(({ kind }) => kind === "completed").length;
    const claimed = events.filter(({ kind }) => kind === "claimed").length;
    const runs = began.get(id) ?? 0;
    if (runs === 0 && runsNoHandler(ledger, id)) continue;
    if (completed > runs)
      yield { invariant: 46, id, message: `${id} completed ${completed} times but was run ${runs} times` };
    if (runs > claimed)
      yield { invariant: 46, id, message: `${id} was run ${runs} times but claimed ${claimed} times` };
  }
}

/** What rides in a settle happens if and only if the settle was applied, and then once. */
function* effectsHappenOnce(ledger: Ledger): Generator<Violation> {
  const settles = new Map<string, FencedWrite[]>();
  for (const write of ledger.writes)
    // The jobs of a list, and those that a run starts, have the same ids in every attempt to make them.
    if (write.settle?.effects !== undefined && write.settle.journal === undefined)
      if (!runsNoHandler(ledger, write.id)) pushTo(settles, lifeKey(write), write);
  const putsOf = new Map<string, number>();
  const uncertain = new Set<string>();
  for (const [key, writes] of settles) {
    const isApplied = writes.some(({ answer }) => answer === "ok" || answer === "already");
    const mayBeApplied =
      isApplied || writes.some(({ answer, call }) => answer === null && call.seen === "unknown");
    const ids = new Set(writes.flatMap(({ settle }) => settle?.effects?.jobs?.map(({ id }) => id) ?? []));
    const made = [...ids].filter((id) => ledger.timelines.has(id));
    const { id, settle } = writes[0] as FencedWrite;
    const wanted = settle?.effects?.jobs?.length ?? 0;
    if (made.length > wanted || (isApplied && made.length < wanted) || (!mayBeApplied && made.length > 0))
      yield {
        invariant: 47,
        id,
        message: `${key}: ${made.length} of ${wanted} follow-ups were made; its settle was ${isApplied ? "applied" : "not applied"}`,
      };
    for (const doc of settle?.effects?.docs ?? []) {
      if (isApplied) putsOf.set(doc.id, (putsOf.get(doc.id) ?? 0) + 1);
      else if (mayBeApplied) uncertain.add(doc.id);
    }
  }
  const versions = new Map(ledger.evidence.snapshot.kv.map(({ id, version }) => [id, version]));
  for (const id of new Set([...putsOf.keys(), ...versions.keys()])) {
    // A version begins above the store's floor, so it says how often an entry was written at the most.
    const [version = 0, puts = 0] = [versions.get(id), putsOf.get(id)];
    if (!uncertain.has(id) && (version < puts || (version > 0 && puts === 0)))
      yield {
        invariant: 47,
        message: `the entry ${id} has the version ${version}, but was written by ${puts} completions`,
      };
  }
}

function* feedIsWhole(ledger: Ledger): Generator<Violation> {
  const { feed, feedByPages } = ledger.evidence.snapshot;
  const show = (records: readonly FeedRecord[]): string => JSON.stringify(records);
  if (show(feed) !== show(feedByPages))
    yield { invariant: 51, message: "the feed read in pages is not the feed" };
  for (const [index, { number }] of feed.entries())
    if (index > 0 && number <= (feed[index - 1] as FeedRecord).number)
      yield { invariant: 51, message: `the feed goes from ${feed[index - 1]?.number} to ${number}` };
  for (const [id, events] of ledger.timelines) {
    let rev = 0;
    for (const event of events) {
      if (event.rev !== rev + 1)
        yield { invariant: 51, id, message: `${id}: rev ${rev} is followed by ${event.rev}` };
      rev = event.kind === "deleted" ? 0 : event.rev;
    }
  }
}

function* stoppedWorkersHoldNothing(ledger: Ledger): Generator<Violation> {
  for (const operation of ledger.evidence.operations)
    if (operation.kind === "stop" && operation.isUndisturbed && operation.held.length > 0)
      yield {
        invariant: 54,
        id: operation.held[0] as string,
        message: `${operation.owner} was stopped and still holds ${operation.held.join(", ")}`,
      };
}
