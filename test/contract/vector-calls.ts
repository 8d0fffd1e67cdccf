/**
 * The calls that the vectors are written with: short names for what a store is asked, with the time after the start.
 */
import type { Unique } from "../../src/model/job/unique-key.ts";
import type { Change } from "../../src/store/operations.ts";
import type { DocPut, NewJob } from "../../src/store/records.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";

export type Operation =
  | "submit"
  | "claim"
  | "settleIfLeased"
  | "extendIfLeased"
  | "recordIfLeased"
  | "changeIf"
  | "promoteDue"
  | "readDue"
  | "putDocs"
  | "readDocs"
  | "readDueDocs"
  | "findJobs"
  | "countJobs"
  | "readFeed"
  | "readFrames"
  | "readJournal"
  | "prune";

export type Call = readonly [afterMs: number, op: Operation, request: unknown];
export type Script = readonly [title: string, ...calls: Call[]];

export const submit = (afterMs: number, ...jobs: readonly NewJob[]): Call => [
  afterMs,
  "submit",
  jobs.map((job) => ({ jobs: [job] })),
];
export const claim = (afterMs: number, given: Parameters<typeof aClaim>[0] = {}): Call => [
  afterMs,
  "claim",
  aClaim(given),
];
export const lease = (
  id: string,
  seq: number,
  fence: number,
): { id: string; seq: number; fence: number } => ({
  id,
  seq,
  fence,
});
export const promote = (afterMs: number, max = 10): Call => [afterMs, "promoteDue", { max }];
export const put = (afterMs: number, ...puts: readonly DocPut[]): Call => [afterMs, "putDocs", puts];
export const due = (afterMs: number, clock: string): Call => [
  afterMs,
  "readDue",
  { clock, max: 100, cursor: null },
];
export const settle = (afterMs: number, ...settles: readonly ReturnType<typeof aSettle>[]): Call => [
  afterMs,
  "settleIfLeased",
  settles,
];
export const change = (afterMs: number, ...changes: readonly Change[]): Call => [
  afterMs,
  "changeIf",
  changes,
];
export const extend = (afterMs: number, leases: readonly object[], given: object = {}): Call => [
  afterMs,
  "extendIfLeased",
  { owner: "w1", leaseMs: 1000, leases, wantsOthers: false, ...given },
];
export const keyed = (id: string, unique: Partial<Unique> = {}, given: Partial<NewJob> = {}): NewJob =>
  aJob({ ...given, id, unique: { key: "k", hold: "end", onHeld: "keep", ...unique } });
export const running = aSettle(lease("a", 1, 1), finish());
