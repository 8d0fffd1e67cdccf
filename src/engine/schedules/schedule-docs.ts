/**
 * The documents of schedules. A schedule's document lies in the partition of its jobs, because a firing writes both in
 * one step. A job that may lie anywhere lies with the schedule's name; one that must lie somewhere (limits, a unique
 * key) draws the document there: its id then begins with a text in braces that belongs to that partition.
 *
 *   nightly              the partition of the name
 *   {7} US nightly       the partition of "7"
 *
 * A backfill has the id of its schedule under a kind of its own, so it lies in the same place.
 */
import { scheduleDue } from "../../model/schedule/decide-schedule.ts";
import { readSchedule, writeSchedule } from "../../model/schedule/schedule-state.ts";
import type { ScheduleState } from "../../model/schedule/schedule-state.ts";
import { settingsOf } from "../../model/schedule/schedule-state.ts";
import { MillraceError } from "../../model/error.ts";
import { askedPartition, textIn } from "../../model/routing/placement.ts";
import type { Doc, DocPut, NewJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { readFiringTemplate } from "./firing-template.ts";
import type { FiringTemplate } from "./firing-template.ts";

type ScheduleDocsNeeds = Needs<"store" | "ids">;

export const scheduleKind = "schedule";
export const backfillKind = "backfill";

const homeEnd = "\x1f";
/** As many processes as may change one schedule in the same moment. */
const triesMax = 100;

export interface FoundSchedule {
  readonly name: string;
  readonly doc: Doc;
  /** Null for a document that cannot be read. */
  readonly state: ScheduleState | null;
  readonly template: FiringTemplate | null;
  /** Why it cannot be read. */
  readonly problem: string | null;
}

export function nameOfDoc(id: string): string {
  const end = id.indexOf(homeEnd);
  return end < 0 ? id : id.slice(end + 1);
}

export function partitionOfDoc({ ids: { placement } }: Needs<"ids">, id: string): number {
  return placement === null ? 0 : placement.ofName(id);
}

/** The id of a schedule's document, beside where its jobs have to lie. */
export function docIdFor(
  { ids: { placement } }: Needs<"ids">,
  name: string,
  jobs: readonly NewJob[],
): string {
  if (placement === null) return name;
  const asked = askedPartition(placement, { jobs: jobs.map((job) => ({ ...job, digest: null })) });
  return asked === null || asked === placement.ofName(name)
    ? name
    : `{${textIn(placement, asked)}}${homeEnd}${name}`;
}

/** Every id that the document of this name may have. */
export function docIdsOf({ ids: { placement } }: Needs<"ids">, name: string): readonly string[] {
  if (placement === null) return [name];
  const homes = Array.from({ length: placement.partitions }, (_, number) => textIn(placement, number));
  return [name, ...homes.map((home) => `{${home}}${homeEnd}${name}`)];
}

export function foundSchedule(doc: Doc): FoundSchedule {
  const name = nameOfDoc(doc.id);
  const read = readSchedule(doc.body);
  if (read.kind === "unreadable") return { name, doc, state: null, template: null, problem: read.reason };
  try {
    const template = readFiringTemplate(settingsOf(read.state).job);
    return { name, doc, state: read.state, template, problem: null };
  } catch (problem) {
    return { name, doc, state: null, template: null, problem: String(problem) };
  }
}

/** Null for none. Of two, which only a move that was cut off leaves, the one that is still due or newer. */
export async function findSchedule(needs: ScheduleDocsNeeds, name: string): Promise<FoundSchedule | null> {
  const [found = null] = (await findDocs(needs, scheduleKind, name)).map(foundSchedule);
  return found;
}

export async function findDocs(
  needs: ScheduleDocsNeeds,
  kind: string,
  name: string,
): Promise<readonly Doc[]> {
  const { docs } = await needs.store.readDocs({ kind, ids: docIdsOf(needs, name) });
  return docs.toSorted((one, other) => Number(other.dueAt !== null) - Number(one.dueAt !== null));
}

export function schedulePut(
  { id, version }: Pick<Doc, "id" | "version">,
  state: ScheduleState,
  now: number,
): DocPut {
  const due = scheduleDue(state, nameOfDoc(id), now);
  const guard = version === 0 ? ("absent" as const) : { version };
  const put = { kind: scheduleKind, id, body: writeSchedule(state), guard };
  return due === null ? put : { ...put, due: { at: due, isNamed: true } };
}

export interface ReadableSchedule extends FoundSchedule {
  readonly state: ScheduleState;
  readonly template: FiringTemplate;
}

/** Ticks are of a calendar, so they follow the server's own clock: the store's may be ahead after it was set back. */
export async function serverTime({ store }: Needs<"store">): Promise<number> {
  const { now, serverNow = now } = await store.describe();
  return serverNow;
}

/**
 * Changes a schedule under its version, again and again until no other process was faster.
 *
 * @param decide the new state, by the store's clock; null for none.
 * @returns what there is afterwards.
 */
export async function changeSchedule(
  needs: ScheduleDocsNeeds,
  name: string,
  decide: (found: ReadableSchedule, now: number) => ScheduleState | null,
): Promise<FoundSchedule> {
  for (let tries = 0; tries < triesMax; tries++) {
    const found = await mustFind(needs, name);
    const now = await serverTime(needs);
    const next = decide(found, now);
    if (next === null) return found;
    const put = schedulePut(found.doc, next, now);
    const [answer] = await needs.store.putDocs([put]);
    if (answer?.kind !== "ok") continue;
    return foundSchedule({
      ...found.doc,
      version: answer.version,
      body: put.body as string,
      dueAt: scheduleDue(next, name, now),
    });
  }
  throw contended(name);
}

export async function mustFind(needs: ScheduleDocsNeeds, name: string): Promise<ReadableSchedule> {
  const found = await findSchedule(needs, name);
  if (found === null) throw unknownSchedule(name);
  return readable(found);
}

export function readable(found: FoundSchedule): ReadableSchedule {
  const { name, state, template, problem } = found;
  if (state !== null && template !== null) return { ...found, state, template };
  throw new MillraceError(
    "schedule-unreadable",
    `The stored schedule ${JSON.stringify(name)} cannot be read by this process: ${problem}`,
  );
}

export function unknownSchedule(name: string): MillraceError {
  return new MillraceError("unknown-schedule", `There is no schedule ${JSON.stringify(name)}.`);
}

export function contended(name: string): MillraceError {
  return new MillraceError(
    "version-conflict",
    `The schedule ${JSON.stringify(name)} changes all the time; try again.`,
  );
}
