/**
 * Flows: invariants 40, 41, 43, 45, 52 and 58. What a member waits for is taken from its own record, how others ended
 * from the feed, so that nothing which the store counted is believed.
 */
import { readEdge, hasBit } from "../../../src/model/flow/edge.ts";
import { idOfPath, isItem, rootOf } from "../../../src/model/flow/flow-meta.ts";
import type { FlowMeta } from "../../../src/model/flow/flow-meta.ts";
import { readWaits } from "../../../src/model/flow/flow-waits.ts";
import { readMeta } from "../../../src/model/job/job-meta.ts";
import { isTerminal, stateCodes, terminalStates } from "../../../src/model/job/job-state.ts";
import type { TerminalState } from "../../../src/model/job/job-state.ts";
import type { FeedRecord, JobRecord } from "../../../src/store/records.ts";
import { pushTo } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

export function* checkFlows({ evidence }: Ledger): Generator<Violation> {
  for (const message of evidence.miscounts ?? []) yield { invariant: 43, message };
  yield* judgeFlows(evidence.snapshot.jobs, evidence.snapshot.feed);
}

/** @param jobs everything there is once all work is done. */
export function* judgeFlows(jobs: readonly JobRecord[], feed: readonly FeedRecord[]): Generator<Violation> {
  const members = jobs.filter(({ waits }) => waits !== null);
  if (members.length === 0) return;
  const records = new Map(members.map((record) => [record.id, record]));
  yield* countsAreTrue(members);
  yield* nobodyHangs(members, records);
  yield* nobodyRanEarly(records, feed);
  yield* membersStay(records, feed);
  yield* capsHold(records, feed);
}

export function* countsAreTrue(members: readonly JobRecord[]): Generator<Violation> {
  const inside = new Map<string, JobRecord[]>();
  for (const record of members) if (record.flow !== null) pushTo(inside, record.flow, record);
  for (const { id, waits } of members) {
    const counted = readWaits(waits as string).members;
    if (counted === null) continue;
    const own = inside.get(id) ?? [];
    const ended = terminalStates.map((end) => own.filter(({ state }) => state === end).length);
    if (counted.total === own.length && ended.every((count, at) => count === counted.ended[at])) continue;
    const message = `${id} counts ${counted.total} members of which ${counted.ended.join()} ended, and has ${own.length} and ${ended.join()}`;
    yield { invariant: 43, id, message };
  }
}

function* nobodyHangs(
  members: readonly JobRecord[],
  records: ReadonlyMap<string, JobRecord>,
): Generator<Violation> {
  for (const { id, flow, state, waits } of members) {
    if (isTerminal(state)) continue;
    const { need, slack } = readWaits(waits as string);
    if (state === "blocked" && (need <= 0 || slack < 0))
      yield { invariant: 41, id, message: `${id} is still blocked, although what it waits for is decided` };
    for (let at = flow; at !== null; at = records.get(at)?.flow ?? null)
      if (records.get(at)?.state === "cancelled")
        yield { invariant: 45, id, message: `${id} is ${state}, although ${at} is cancelled` };
  }
}

const flowOf = ({ meta }: JobRecord): FlowMeta => readMeta(meta).flow ?? {};

/** Each is freed once in a round, and then as many of its parents have ended as it needs. */
function* nobodyRanEarly(
  records: ReadonlyMap<string, JobRecord>,
  feed: readonly FeedRecord[],
): Generator<Violation> {
  const ends = new Map<string, TerminalState>();
  const freed = new Set<string>();
  const born = new Set<string>();
  for (const { events } of feed) {
    // One step of the store: whom an end frees may be told before the end.
    for (const { id, state } of events)
      if (state !== null && isTerminal(state)) ends.set(id, state as TerminalState);
    for (const { id, kind, state } of events) {
      const record = records.get(id);
      if (record === undefined) continue;
      if (kind === "submitted" && state === "blocked") born.add(id);
      // A new round begins; it may begin freed.
      if (kind === "replayed") {
        freed.delete(id);
        born.delete(id);
      }
      if (kind === "freed" && freed.has(id))
        yield { invariant: 41, id, message: `${id} was freed twice in one round` };
      if (kind === "freed") freed.add(id);
      if (kind === "claimed" && born.has(id) && !freed.has(id))
        yield { invariant: 41, id, message: `${id} was claimed without having been freed` };
      // What was freed goes on, although what it comes after may come back meanwhile.
      if (kind !== "freed") continue;
      const { parents = [], wants = { need: 0, slack: 0 } } = flowOf(record);
      const met = parents.filter((text) => {
        const { meets, target } = readEdge(text);
        const end = ends.get(idOfPath(rootOf(id) ?? "", target));
        return end !== undefined && hasBit(meets, stateCodes[end]);
      });
      if (met.length < wants.need)
        yield {
          invariant: 40,
          id,
          message: `${id} was freed with ${met.length} of the ${wants.need} that it wants`,
        };
    }
  }
}

/** Items of a map that are neither blocked nor over, behind each step of the store. */
function* capsHold(
  records: ReadonlyMap<string, JobRecord>,
  feed: readonly FeedRecord[],
): Generator<Violation> {
  const free = new Map<string, Set<string>>();
  for (const { events } of feed) {
    const moved = new Map<string, number>();
    for (const { id, state } of events) {
      const map = isItem(id) ? records.get(records.get(id)?.flow ?? "") : undefined;
      const part = map === undefined ? undefined : flowOf(map).part;
      if (map === undefined || part?.kind !== "group" || part.concurrency === undefined) continue;
      const items = free.get(map.id) ?? new Set();
      free.set(map.id, items);
      if (state === null || state === "blocked" || isTerminal(state)) items.delete(id);
      else items.add(id);
      moved.set(map.id, part.concurrency);
    }
    for (const [id, cap] of moved) {
      const { size } = free.get(id) as Set<string>;
      if (size > cap) yield { invariant: 58, id, message: `${size} items of ${id} are free, and not ${cap}` };
    }
  }
}

/** What is a member goes with its flow and not before. */
function* membersStay(
  records: ReadonlyMap<string, JobRecord>,
  feed: readonly FeedRecord[],
): Generator<Violation> {
  for (const { events } of feed)
    for (const { id, state } of events) {
      const root = rootOf(id);
      if (state === null && root !== null && records.has(root) && !records.has(id))
        yield { invariant: 52, id, message: `${id} was deleted, and its flow is still there` };
    }
}
