/**
 * Which answers wait until their commit has landed in the bucket.
 *
 * An answer that promises something waits for its own commit. A read for people waits for what was not landed when it
 * read: what was answered cannot vanish. A claim waits if a job that it hands out may have become claimable by a
 * commit that has not landed: its handler would otherwise run a job that may never have existed. What other claims took
 * makes no difference: of two claims that have not landed the later one is lost with the earlier one. Everything else
 * is safe by the order of the log.
 *
 * After a pause reads, claims and renewals wait for a put that begins after them, whatever this table says: somebody
 * else may have the bucket by then (log-writer.ts).
 *
 * A read does not wait for a heartbeat: a registration ends by itself within seconds, so it may vanish. A heartbeat
 * comes every second or two, so otherwise each look of an idle process at its settings would cost a put.
 */
import type { Call } from "../../sqlite/connection/commit.ts";

export type Waits = "for-landing" | "for-freed-jobs" | "never";

export const waitsOf: Readonly<Record<Call["operation"], Waits>> = {
  submit: "for-landing",
  settleIfLeased: "for-landing",
  recordIfLeased: "for-landing",
  changeIf: "for-landing",
  putGates: "for-landing",
  putDocs: "for-landing",
  deleteUnreadable: "for-landing",
  readGates: "for-landing",
  readDocs: "for-landing",
  readJobs: "for-landing",
  findJobs: "for-landing",
  countJobs: "for-landing",
  readRoutes: "for-landing",
  readFeed: "for-landing",
  readLogs: "for-landing",
  readFrames: "for-landing",
  readJournal: "for-landing",
  readUnreadable: "for-landing",
  claim: "for-freed-jobs",
  heartbeat: "never",
  readHeartbeat: "never",
  extendIfLeased: "never",
  promoteDue: "never",
  prune: "never",
  auditIndexes: "never",
  readDue: "never",
  readDueDocs: "never",
  readNow: "never",
  readSize: "never",
  readHeads: "never",
  readNews: "never",
};
