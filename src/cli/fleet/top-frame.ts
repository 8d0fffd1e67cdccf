/**
 * One frame of `millrace top`, as lines: queues with what waits and runs and how much ended per second, the live
 * workers, and what is wrong. A pure function of two readings of the store, so that a small terminal and a test see the
 * same.
 */
import type { QueueCounts } from "../../client/jobs/count-jobs.ts";
import type { WorkerView } from "../../client/workers/workers.ts";
import { durationText } from "../../model/duration.ts";
import { escapeText } from "../output/escape.ts";
import { formatTable } from "../output/format-table.ts";
import { workerTable } from "./worker-table.ts";

/** One reading: state counts and the registry, never a list of jobs. */
export interface TopLook {
  readonly counts: Readonly<Record<string, QueueCounts>>;
  readonly workers: readonly WorkerView[];
  /** The store's time. */
  readonly now: number;
}

export interface TopQueue {
  readonly queue: string;
  readonly scheduled: number;
  readonly ready: number;
  readonly held: number;
  readonly running: number;
  /** Over all live workers. */
  readonly slots: number;
  readonly completedPerSecond: number;
  readonly failedPerSecond: number;
  readonly failed: number;
}

/** A loop that is so late makes handlers and leases late. */
const loopLateMs = 500;

/** @param before an earlier reading, from which rates follow; null for the first. */
export function topQueues(before: TopLook | null, look: TopLook): readonly TopQueue[] {
  const served = look.workers.flatMap(({ queues }) => queues);
  const names = new Set([...Object.keys(look.counts), ...served]);
  const seconds = before === null ? 0 : (look.now - before.now) / 1000;
  return [...names].toSorted().map((queue) => {
    const counts = look.counts[queue] ?? {};
    const perSecond = (state: "completed" | "failed"): number =>
      seconds <= 0 ? 0 : Math.max(0, (counts[state] ?? 0) - (before?.counts[queue]?.[state] ?? 0)) / seconds;
    return {
      queue,
      scheduled: counts.scheduled ?? 0,
      ready: counts.ready ?? 0,
      held: counts.held ?? 0,
      running: counts.running ?? 0,
      slots: look.workers.reduce((sum, { slots }) => sum + (slots[queue] ?? 0), 0),
      completedPerSecond: perSecond("completed"),
      failedPerSecond: perSecond("failed"),
      failed: counts.failed ?? 0,
    };
  });
}

export function topTrouble(queues: readonly TopQueue[], workers: readonly WorkerView[]): readonly string[] {
  const unserved = queues.filter(
    ({ queue, ready }) => ready > 0 && !workers.some((worker) => worker.queues.includes(queue)),
  );
  return [
    ...unserved.map(({ queue, ready }) => `${ready} ready in ${queue}, which no live worker serves`),
    ...queues.filter(({ held }) => held > 0).map(({ queue, held }) => `${held} held in ${queue}`),
    ...queues
      .filter(({ failedPerSecond }) => failedPerSecond > 0)
      .map(({ queue, failedPerSecond }) => `${rate(failedPerSecond)} failed per second in ${queue}`),
    ...workers.flatMap(({ id, mode, abandoned, loopDelayMs }) => [
      ...(mode === "working" ? [] : [`${id} is ${mode}`]),
      ...(abandoned === 0 ? [] : [`${abandoned} handlers on ${id} ignore their abort`]),
      ...(loopDelayMs < loopLateMs ? [] : [`the event loop of ${id} was ${durationText(loopDelayMs)} late`]),
    ]),
  ];
}

const columns = [
  { title: "QUEUE", charsMax: 40 },
  ...["SCHEDULED", "READY", "HELD", "RUNNING", "SLOTS", "DONE/S", "FAILED/S", "FAILED"].map((title) => ({
    title,
    isNumber: true,
  })),
];

/** The rows of a part of the frame that does not fit are counted in its last line. */
export function topFrame(before: TopLook | null, look: TopLook, rows: number): readonly string[] {
  const queues = topQueues(before, look);
  const trouble = topTrouble(queues, look.workers).map(escapeText);
  const running = queues.reduce((sum, queue) => sum + queue.running, 0);
  const done = queues.reduce((sum, { completedPerSecond }) => sum + completedPerSecond, 0);
  const head = `${look.workers.length} worker${look.workers.length === 1 ? "" : "s"}, ${running} running, ${rate(done)} completed per second`;
  const parts = [
    trouble.length === 0 ? ["no trouble"] : trouble.map((line) => `! ${line}`),
    queueTable(queues).split("\n"),
    ...(look.workers.length === 0 ? [] : [workerTable(look.workers, look.now).split("\n")]),
  ];
  const room = Math.max(parts.length, rows - 1 - parts.length);
  return [head, ...parts.flatMap((lines) => ["", ...fit(lines, Math.ceil(room / parts.length))])];
}

function queueTable(queues: readonly TopQueue[]): string {
  return formatTable(
    columns,
    queues.map((each) => [
      each.queue,
      ...[each.scheduled, each.ready, each.held, each.running, each.slots].map(String),
      rate(each.completedPerSecond),
      rate(each.failedPerSecond),
      String(each.failed),
    ]),
  );
}

function fit(lines: readonly string[], max: number): readonly string[] {
  if (lines.length <= max) return lines;
  const shown = lines.slice(0, Math.max(0, max - 1));
  return [...shown, `… ${lines.length - shown.length} more`];
}

function rate(perSecond: number): string {
  return perSecond === 0 || perSecond >= 10 ? String(Math.round(perSecond)) : perSecond.toFixed(1);
}
