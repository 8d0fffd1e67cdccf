/** The paths of SQLite (store/paths.ts). Promotion, pruning and reads make no choice. */
import type { Settle } from "../../store/operations.ts";
import type { StorePaths } from "../../store/paths.ts";
import { isOfFlow, isPlainJob, isPlainSettle } from "../../store/path-predicates.ts";
import type { NewJob } from "../../store/records.ts";
import { uniqueHolds } from "../../store/rules/unique-holds.ts";

export const sqlitePaths = {
  /** Of a new job. Members are looked up as on the general path, and written as a set (insert.ts). */
  submit: [
    { path: "set", takes: (job: NewJob) => isPlainJob(job) },
    { path: "flow members", takes: (job: NewJob) => isOfFlow(job) },
  ],
  /** Of the routes of an offer, and those that have lanes. The other offers are read by route. */
  claim: [
    {
      path: "lanes",
      takes: (routes: readonly number[], laned: ReadonlySet<number>) =>
        laned.size > 0 && routes.some((route) => laned.has(route)),
    },
  ],
  /** Of a picked job: one whose start frees its unique key goes the general path. */
  lease: [{ path: "set", takes: (holds: number) => holds !== uniqueHolds.started }],
  /** Of a settle and what its running job waits for. */
  settle: [
    {
      path: "flow members",
      takes: (settle: Settle, waits: string | null) => waits !== null && isPlainSettle(settle),
    },
    { path: "set", takes: (settle: Settle) => isPlainSettle(settle) },
  ],
} as const satisfies StorePaths;
