/**
 * Backfills: a document per schedule that carries everything its ticks need, so that any process goes on where another
 * one ended, and an edit of the schedule does not change a backfill that runs. A step reads which of its jobs have
 * ended, and submits as many ticks as may run at once, together with its new state, under the version that was read.
 */
import { MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { readBackfill, stepBackfill } from "../../model/schedule/backfill.ts";
import type { Backfill } from "../../model/schedule/backfill.ts";
import { firingId } from "../../model/schedule/firing.ts";
import { readScheduleRule } from "../../model/schedule/schedule-rule.ts";
import type { ScheduleRule } from "../../model/schedule/schedule-rule.ts";
import { settingsOf } from "../../model/schedule/schedule-state.ts";
import type { Doc, DocGuard, DocPut } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { passOver } from "./fire-schedules.ts";
import type { Look } from "./fire-schedules.ts";
import { jobsOfFiring, readFiringTemplate } from "./firing-template.ts";
import { backfillKind, findDocs, mustFind, nameOfDoc, partitionOfDoc } from "./schedule-docs.ts";

type BackfillsNeeds = Needs<"store" | "ids">;

/** What the document keeps. */
interface KeptBackfill {
  readonly backfill: Backfill;
  readonly rule: ScheduleRule;
  /** As a schedule keeps it. */
  readonly job: string;
  /** Jobs of it that had not ended when somebody looked last. */
  readonly alive: readonly string[];
}

export interface BackfillProgress {
  readonly from: Date;
  readonly to: Date;
  readonly atOnce: number;
  /** How many ticks there are in all, and how many of them have fired. */
  readonly total: number;
  readonly fired: number;
  /** Jobs that have fired and not ended, as of the last look. */
  readonly running: number;
  readonly done: boolean;
}

/** How soon the next look comes: sooner while jobs end quickly. */
const againMs = { busy: 200, idle: 1000 };
/** How long the progress of a backfill that is done can be read. */
const keptMs = 7 * 86_400_000;

/** @param options `{ from, to, atOnce }`, see model/schedule/backfill.ts. */
export async function beginBackfill(
  needs: BackfillsNeeds,
  name: string,
  options: unknown,
): Promise<BackfillProgress> {
  const what = `backfill of ${JSON.stringify(name)}`;
  const { doc, state } = await mustFind(needs, name);
  const { rule, job } = settingsOf(state);
  const kept: KeptBackfill = { backfill: readBackfill(options, rule, what), rule, job, alive: [] };
  const [present] = await findDocs(needs, backfillKind, name);
  if (present !== undefined && !progressOf(present).done)
    throw new MillraceError("backfill-running", `${what}: one runs already; wait for it, or stop it.`);
  const version = present?.version ?? 0;
  const guard = version === 0 ? ("absent" as const) : { version };
  const put = keptPut(doc.id, guard, kept, 0);
  const [answer] = await needs.store.putDocs([put]);
  if (answer?.kind !== "ok") {
    const { from, to, atOnce } = kept.backfill;
    const progress = await readProgress(needs, name);
    // The reply of an earlier try was lost, and a duty has gone on with what it began.
    const isAsked = progress?.from.getTime() === from && progress.to.getTime() === to;
    if (isAsked && progress.atOnce === atOnce) return progress;
    throw new MillraceError("backfill-running", `${what}: another one has just begun.`);
  }
  return progressOfKept(kept);
}

export async function readProgress(needs: BackfillsNeeds, name: string): Promise<BackfillProgress | null> {
  const [doc] = await findDocs(needs, backfillKind, name);
  return doc === undefined ? null : progressOf(doc);
}

/** Jobs that have fired run on. @returns false where there is none. */
export async function stopBackfill(needs: BackfillsNeeds, name: string): Promise<boolean> {
  const docs = await findDocs(needs, backfillKind, name);
  await needs.store.putDocs(docs.map(({ kind, id }): DocPut => ({ kind, id, body: null, guard: "any" })));
  return docs.length > 0;
}

export function stepBackfills(
  needs: Needs<"store" | "log" | "ids" | "reads" | "submitter">,
  docs: readonly Doc[],
  now: number,
): Promise<readonly PromiseSettledResult<Look>[]> {
  return Promise.allSettled(docs.map((doc) => stepOneBackfill(needs, doc, now)));
}

async function stepOneBackfill(
  needs: Needs<"store" | "log" | "ids" | "reads" | "submitter">,
  doc: Doc,
  now: number,
): Promise<Look> {
  let kept: KeptBackfill;
  try {
    kept = readKept(doc.body);
  } catch (problem) {
    return passOver(needs, doc, String(problem), now);
  }
  const name = nameOfDoc(doc.id);
  const states = await Promise.all(kept.alive.map((id) => needs.reads.add(id)));
  const alive = kept.alive.filter((_, at) => {
    const record = states[at] ?? null;
    return record !== null && !isTerminal(record.state);
  });
  const { fire, backfill } = stepBackfill(kept.backfill, kept.rule, alive.length);
  const partition = partitionOfDoc(needs, doc.id);
  const template = readFiringTemplate(kept.job);
  const firings = fire.map((tick) => ({ id: firingId(name, tick, partition), schedule: name, tick }));
  const jobs = firings.flatMap((firing) => jobsOfFiring(template, firing));
  const next = { ...kept, backfill, alive: [...alive, ...firings.map(({ id }) => id)] };
  const isBusy = fire.length > 0 || alive.length < kept.alive.length;
  const inMs = isBusy ? againMs.busy : againMs.idle;
  const put = keptPut(doc.id, { version: doc.version }, next, inMs);
  const look = { jobs: jobs.length, dueAt: put.due ? now + inMs : null };
  if (jobs.length === 0) {
    const [answer] = await needs.store.putDocs([put]);
    return { ...look, outcome: answer?.kind === "ok" ? "waited" : "raced" };
  }
  const answer = await needs.submitter.submit({ jobs, docs: [put] });
  if (answer.kind === "ok") return { ...look, outcome: "fired" };
  if (answer.reason === "doc-changed") return { ...look, jobs: 0, outcome: "raced" };
  // The queue takes no new jobs for now: unlike a tick of the present, a tick of the past can wait.
  const { kind, id, body, version } = doc;
  const due = { inMs: againMs.idle };
  await needs.store.putDocs([{ kind, id, body, guard: { version }, due }]);
  return { outcome: "refused", jobs: 0, dueAt: now + againMs.idle };
}

function keptPut(id: string, guard: DocGuard, kept: KeptBackfill, inMs: number): DocPut {
  const put = { kind: backfillKind, id, body: JSON.stringify(kept), guard };
  return isDone(kept) ? { ...put, expiresInMs: keptMs } : { ...put, due: { inMs } };
}

function isDone({ backfill, alive }: KeptBackfill): boolean {
  return backfill.next === null && alive.length === 0;
}

function readKept(body: string): KeptBackfill {
  const kept = JSON.parse(body) as KeptBackfill;
  return { ...kept, rule: readScheduleRule(kept.rule, "the stored backfill") };
}

function progressOf({ id, body }: Doc): BackfillProgress {
  try {
    return progressOfKept(readKept(body));
  } catch (cause) {
    throw new MillraceError(
      "schedule-unreadable",
      `The stored backfill of ${JSON.stringify(nameOfDoc(id))} cannot be read; stop it to begin another.`,
      { cause },
    );
  }
}

function progressOfKept(kept: KeptBackfill): BackfillProgress {
  const { from, to, atOnce, total, done } = kept.backfill;
  return {
    from: new Date(from),
    to: new Date(to),
    atOnce,
    total,
    fired: done,
    running: kept.alive.length,
    done: isDone(kept),
  };
}
