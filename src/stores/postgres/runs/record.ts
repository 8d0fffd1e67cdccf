/**
 * What running attempts write with their fence (runs/record.sql.ts). Steps of durable runs go as lists, one per field.
 * If a job is written twice in a call, all goes one by one, in the order of the call.
 */
import type { EntryPut, NewJob } from "../../../store/records.ts";
import type { LeasedWrite, OrLocked, RecordAnswer } from "../../../store/operations.ts";
import { choosePath } from "../../../store/paths.ts";
import { isGrowth, isOfFlow } from "../../../store/path-predicates.ts";
import { hintEvents } from "../../../store/packing/packed-events.ts";
import { emptyHints, hintDoc } from "../../../store/watch/hints.ts";
import { callScalar, patiently } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import {
  numberList,
  packText,
  packedList,
  sparseNumberList,
  splitEvents,
  unpackText,
} from "../functions/packed-values.ts";
import { packedFrames } from "../output/frames.ts";
import { unitOf } from "../jobs/packed-unit.ts";
import { RouteList } from "../jobs/routes.ts";
import { entryOf } from "../journal/packed-entry.ts";
import { postgresPaths } from "../paths.ts";

export async function recordIfLeased(
  calls: Calls,
  writes: readonly LeasedWrite[],
): Promise<OrLocked<RecordAnswer>[]> {
  if (writes.length === 0) return [];
  const areOfSet = writes.map((write) => choosePath(postgresPaths.record, write) === "set");
  const isTwice = new Set(writes.map(({ id }) => id)).size < writes.length;
  const singly = writes.map(() => false);
  return patiently((isCareful) =>
    recordBy(calls, writes, isCareful || isTwice ? singly : areOfSet, isCareful),
  );
}

type SetWrite = LeasedWrite & { readonly entries: readonly EntryPut[] };

export async function recordBy(
  calls: Calls,
  writes: readonly LeasedWrite[],
  areOfSet: readonly boolean[],
  isCareful = false,
): Promise<OrLocked<RecordAnswer>[]> {
  const routes = new RouteList();
  const set = writes.filter((_, at) => areOfSet[at] === true) as SetWrite[];
  const singles = writes
    .filter((_, at) => areOfSet[at] !== true)
    .map((write) => singleOf(write, routes, isCareful));
  const answer = await callScalar(calls, "record_v1", {
    ...routes.values(),
    ...setLists(set),
    p_singles: singles.length === 0 ? null : JSON.stringify(singles),
  });
  const [now, lasts = "", lost = "", answered = "", defers = "", events = ""] = splitEvents(answer, 5);
  const hints = emptyHints();
  if (defers === "1") hintDoc(hints, 0);
  hintEvents(hints, events, Number(now));
  calls.emit(hints);
  const ofSet = lasts === "" ? [] : lasts.slice(1, -1).split(",");
  const why = JSON.parse(lost || "{}") as Readonly<Record<string, "stale" | "gone">>;
  const ofSingles = (JSON.parse(answered || "[]") as SingleAnswer[]).map(answerOf);
  let inSet = 0;
  let inSingles = 0;
  return areOfSet.map((isOfSet) => {
    if (!isOfSet) return ofSingles[inSingles++] as OrLocked<RecordAnswer>;
    const place = inSet++;
    return why[place] ?? { kind: "appended", last: Number(ofSet[place]), at: Number(now) };
  });
}

type SingleAnswer = { readonly kind: "ok" | "stale" | "gone" | "locked" } | Exclude<RecordAnswer, string>;

function answerOf(answer: SingleAnswer): OrLocked<RecordAnswer> {
  switch (answer.kind) {
    case "ok":
    case "stale":
    case "gone":
      return answer.kind;
    case "locked":
      return { kind: "locked" };
    case "appended":
      return answer;
    default:
      return { ...answer, id: unpackText(answer.id) };
  }
}

/** By the names of record_v1's parameters. An entry whose key its write has already is left out. */
function setLists(writes: readonly SetWrite[]): Record<string, string | null> {
  const entries = writes.flatMap(({ entries }, at) =>
    withoutRepeats(entries).map((entry) => ({ ...entry, write: at + 1 })),
  );
  const reads = entries.flatMap(({ reads = [] }, at) => reads.map((number) => ({ reader: at + 1, number })));
  const resets = writes.flatMap(({ setsBack }, at) => (setsBack === true ? [at + 1] : []));
  const places = (list: readonly number[]): string | null => (list.length === 0 ? null : numberList(list));
  return {
    p_ids: packedList(writes.map(({ id }) => id)),
    p_seqs: places(writes.map(({ seq }) => seq)),
    p_fences: places(writes.map(({ fence }) => fence)),
    p_resets: places(resets),
    p_writes: places(entries.map(({ write }) => write)),
    p_keys: packedList(entries.map(({ key }) => key)),
    p_bodies: packedList(entries.map(({ body }) => body)),
    p_marks: sparseNumberList(
      entries.map(({ marks = 0 }) => marks),
      0,
    ),
    p_unreads: sparseNumberList(entries.map(({ unread = 0 }) => (unread === 0 ? null : unread))),
    p_readers: places(reads.map(({ reader }) => reader)),
    p_reads: places(reads.map(({ number }) => number)),
  };
}

function withoutRepeats(entries: readonly EntryPut[]): readonly EntryPut[] {
  if (entries.length < 2) return entries;
  const keys = new Set<string>();
  return entries.filter(({ key }) => keys.size < keys.add(key).size);
}

function singleOf(write: LeasedWrite, routes: RouteList, isCareful: boolean): object {
  const { id, seq, fence, progress, logs, overflow, frames, entries, effects, setsBack, steps } = write;
  const { jobs = [], docs = [], ...growth } = effects ?? {};
  // The entries are written before the effects, so a refusal of the effects needs a savepoint.
  const isLate = isCareful || docs.length > 0 || isGrowth(growth) || jobs.some(mayBeRefused);
  return {
    ...{ id: packText(id), seq, fence, isLate },
    progress: progress === undefined ? undefined : packText(progress),
    logs: logs?.map(packText),
    overflow: overflow === undefined ? undefined : packText(overflow),
    frames: frames && packedFrames(frames),
    entries: entries?.map(entryOf),
    setsBack,
    steps: steps?.map(packText),
    effects: effects && unitOf({ jobs, docs, ...growth, isRepeat: false, isLate, isInside: false }, routes),
  };
}

const mayBeRefused = (job: NewJob): boolean => job.digest !== null || (isOfFlow(job) && job.unique !== null);
