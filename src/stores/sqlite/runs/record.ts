/**
 * Record: what a running attempt writes while it runs, under its fence: progress, log lines, output, and for a durable
 * run entries for its journal.
 *
 * The entries of a call are written as a set. A write with effects is all or nothing and runs in a savepoint, so that
 * one refused effect harms no other write of the call.
 */
import assert from "node:assert/strict";
import type { LeasedWrite, RecordAnswer } from "../../../store/operations.ts";
import type { JobRow } from "../../../store/job-fields.ts";
import type { Effects } from "../../../store/records.ts";
import { emitEvent } from "../../../store/rules/call-events.ts";
import { emit } from "../../../store/rules/emit.ts";
import { fitLines } from "../../../store/rules/fit-lines.ts";
import { setBack, withEntries } from "../../../store/rules/journal.ts";
import { readValue } from "../connection/connection.ts";
import { passOnEnds } from "../flows/edges.ts";
import { flushTargets } from "../flows/targets.ts";
import { appendOwn, lastsOf } from "../journals/entries.ts";
import { allOrNothing, submitUnit } from "../jobs/submit.ts";
import type { Step } from "../connection/transaction.ts";
import { writeFrames } from "../output/frames.ts";
import { openLeases } from "./extend.ts";

type Leases = ReturnType<typeof openLeases>;

export function recordIfLeased(step: Step, writes: readonly LeasedWrite[]): RecordAnswer[] {
  const leases = openLeases(step.statements, writes);
  const answers: RecordAnswer[] = [];
  let waiting: Recorded[] = [];
  const flush = (): void => {
    const appended = appendAll(step, leases, waiting);
    for (const [index, { answer }] of appended.entries())
      answers[(waiting[index] as Recorded).place] = answer;
    waiting = [];
  };
  for (const [place, write] of writes.entries()) {
    const { entries, effects } = write;
    if (effects !== undefined) flush();
    const row = leases.find(write);
    if (typeof row === "string") {
      answers[place] = row;
    } else if (entries === undefined) {
      writeNews(step, leases, row, write);
      answers[place] = "ok";
    } else if (effects === undefined) {
      writeNews(step, leases, row, write);
      waiting.push({ place, write, entries });
      // Before the next write of the call, which may emit too.
      if (write.steps !== undefined) flush();
    } else {
      answers[place] = recordWithEffects(step, leases, row, { place, write, entries }, effects);
    }
  }
  flush();
  flushTargets(step);
  return answers;
}

/** Input: seq. Answer: the number of its last line; null without one. */
const lastLine = "SELECT max(number) FROM millrace_log WHERE seq = ? AND fence = 0";
/** Inputs: seq, number, time, text. */
const putLine = "INSERT OR REPLACE INTO millrace_log (seq, fence, number, at, body) VALUES (?, 0, ?, ?, ?)";

/** Progress, log lines, and that attempts count anew. */
function writeNews(step: Step, leases: Leases, row: JobRow, write: LeasedWrite): void {
  const { statements, now } = step;
  const { seq } = row;
  const { progress, logs = [], overflow, frames, entries, setsBack } = write;
  if (progress !== undefined) {
    const reported = { ...row, progress };
    leases.write(row, reported);
    emitEvent(step, emit({ row: reported, event: "progress" }));
  }
  if (frames !== undefined) {
    writeFrames(step, write, frames);
    emitEvent(step, emit({ row: leases.find(write) as JobRow, event: "output" }));
  }
  // Before the next write of the call, whose progress has the attempt in its event.
  if (entries !== undefined && setsBack === true) {
    const reported = leases.find(write) as JobRow;
    leases.write(reported, setBack(reported));
  }
  if (logs.length === 0) return;
  const last = readValue<number>(statements, lastLine, seq) ?? 0;
  for (const { number, body } of fitLines(last, logs, overflow))
    statements(putLine).run(seq, number, now, body);
}

/** A write with entries, and its place in the call. */
interface Recorded {
  readonly place: number;
  readonly write: LeasedWrite;
  readonly entries: NonNullable<LeasedWrite["entries"]>;
}

interface Appended {
  readonly answer: RecordAnswer;
  /** Whether any of its entries was new. */
  readonly isNew: boolean;
}

/** Guard: all are leased. */
function appendAll(step: Step, leases: Leases, recorded: readonly Recorded[]): Appended[] {
  if (recorded.length === 0) return [];
  const runs = recorded.map(({ write, entries }) => ({ seq: write.seq, puts: entries }));
  const lasts = lastsOf(
    step.statements,
    runs.map(({ seq }) => seq),
  );
  return appendOwn(step, runs, lasts).map(({ entries, last }, index): Appended => {
    const { write } = recorded[index] as Recorded;
    const row = leases.find(write) as JobRow;
    const appended = withEntries(row, entries);
    leases.write(row, appended);
    if (entries.length > 0)
      for (const text of write.steps ?? [])
        emitEvent(step, emit({ row: { ...appended, progress: text }, event: "step" }));
    return { answer: { kind: "appended", last, at: step.now }, isNew: entries.length > 0 };
  });
}

const applied = { kind: "ok" } as const;

function recordWithEffects(
  step: Step,
  leases: Leases,
  row: JobRow,
  recorded: Recorded,
  { jobs = [], ...effects }: Effects,
): RecordAnswer {
  let answer: RecordAnswer = "ok";
  const unit = allOrNothing(step, () => {
    writeNews(step, leases, row, recorded.write);
    const [appended] = appendAll(step, leases, [recorded]) as [Appended];
    ({ answer } = appended);
    if (!appended.isNew) return applied;
    const done = submitUnit(step, { jobs, ...effects });
    if (done.kind === "ok") passOnEnds(step);
    return done;
  });
  if (unit.kind === "ok") return answer;
  leases.restore(row);
  assert(unit.reason !== "intake-closed", "effects are no intake");
  return { kind: unit.reason, id: unit.id };
}
