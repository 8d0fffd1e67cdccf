/**
 * The calls of one flush in one transaction: one commit, one wait for the disk, however many callers. Answers are
 * given only once COMMIT has returned. A call that fails unexpectedly rolls the transaction back and the calls run
 * again one by one, so that only the guilty one fails. A record that cannot be read is kept as unreadable, and the call
 * that met it runs again (retry-unreadable.ts).
 *
 * Everything here is synchronous and plain, so it runs the same in the caller's thread and in a thread of its own.
 */
import type { DatabaseSync } from "node:sqlite";
import { contractHints, emptyHints } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import type { ClaimAnswer, ClaimRequest } from "../../../store/operations.ts";
import type { Hint } from "../../../store/store.ts";
import { readUnreadable, deleteUnreadable } from "../upkeep/keep-unreadable.ts";
import { auditIndexes } from "../upkeep/audit.ts";
import { changeIf } from "../jobs/change.ts";
import { claim } from "../runs/claim.ts";
import { storeNow } from "../jobs/clock.ts";
import { statementsOf } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { putDocs, readDocs, readDueDocs } from "../documents/documents.ts";
import { readDue } from "../upkeep/due.ts";
import { leaveEpoch } from "./epoch.ts";
import { isBusy, storeError } from "./errors.ts";
import type { FileIdentity } from "./file-identity.ts";
import { extendIfLeased } from "../runs/extend.ts";
import { readFrames } from "../output/read-frames.ts";
import { readJournal } from "../journals/read-journal.ts";
import { recordIfLeased } from "../runs/record.ts";
import { findJobs } from "../jobs/find.ts";
import { heartbeat } from "../documents/heartbeat.ts";
import { putGates, readGates } from "../limits/gates.ts";
import { clearUnreadable, mayRetry, retriesMax } from "../upkeep/retry-unreadable.ts";
import type { Searches } from "../upkeep/retry-unreadable.ts";
import { inWriteTransaction } from "./migrate.ts";
import { promoteDue } from "../upkeep/promote.ts";
import { prune } from "../upkeep/prune.ts";
import { readFeed, readHeads, readJobs, readNews, readSize, readLogs, countJobs } from "../jobs/read.ts";
import { readRoutes } from "../jobs/routes.ts";
import type { KnownRoutes } from "../jobs/routes.ts";
import { settleIfLeased } from "../runs/settle.ts";
import { beginStep, beginCommit, endStep, flushCommit } from "./transaction.ts";
import type { Step, Commit } from "./transaction.ts";
import { submit } from "../jobs/submit.ts";

const writes = {
  submit,
  claim,
  heartbeat,
  settleIfLeased,
  extendIfLeased,
  recordIfLeased,
  changeIf,
  promoteDue,
  putGates,
  putDocs,
  prune,
  auditIndexes,
  deleteUnreadable,
};

const reads = {
  /** A heartbeat that puts nothing. */
  readHeartbeat: heartbeat,
  readDue,
  readGates,
  readDocs,
  readDueDocs,
  readJobs,
  findJobs,
  countJobs,
  readRoutes,
  readFeed,
  readLogs,
  readFrames,
  readJournal,
  readUnreadable,
  readNow: ({ now }: Step) => now,
  readSize,
  readHeads,
  readNews,
};

const operations = { ...writes, ...reads };

export const isRead = (operation: keyof typeof operations): boolean => Object.hasOwn(reads, operation);

export interface Call {
  readonly operation: keyof typeof operations;
  readonly request: unknown;
}

export type CallOutcome =
  | { readonly kind: "answer"; readonly answer: unknown }
  | { readonly kind: "error"; readonly error: unknown }
  /** The write lock was held by somebody else: nothing happened, try again. */
  | { readonly kind: "busy" };

export interface CommitOutcome {
  readonly outcomes: CallOutcome[];
  readonly hints: Hint[];
  /** Numbers of the feed records written, so that the watch can tell its own from those of others. */
  readonly emitted: number[];
  /** The store's time of the calls. */
  readonly now: number;
  readonly freed: Freed;
}

/** What became claimable by a commit, also what its own claims took at once. */
export interface Freed {
  readonly routes: readonly number[];
  /** Jobs of lanes moved, so that a job of any route may have become the first of its lane. */
  readonly hasLanes: boolean;
}

export const nothingFreed: Freed = { routes: [], hasLanes: false };

/** What is kept between the transactions of one connection. */
export interface Session {
  readonly database: DatabaseSync;
  readonly path: string;
  readonly statements: Statements;
  readonly routes: KnownRoutes;
  readonly epoch: number;
  /** What a relaxed opener has to take back at the close (epoch.ts). */
  readonly opener: string | null;
  readonly identity: FileIdentity | null;
  readonly searches: Searches;
  lastNow: number;
}

export function openSession(
  database: DatabaseSync,
  given: Pick<Session, "path" | "epoch" | "opener" | "identity">,
): Session {
  const kept = { statements: statementsOf(database), routes: new Map(), searches: { vainAt: null } };
  return { database, ...given, ...kept, lastNow: 0 };
}

export function closeSession({ database, opener }: Session): void {
  leaveEpoch(database, opener);
  database.close();
}

/** `retries`: how often these calls have met a record that could not be read, and were tried again. */
export function commitCalls(
  session: Session,
  calls: readonly Call[],
  machineNow: number,
  retries = 0,
): CommitOutcome {
  const { statements } = session;
  const isWriting = calls.some(({ operation }) => Object.hasOwn(writes, operation));
  let stage: "begin" | "run" | "commit" = "begin";
  try {
    session.identity?.check(machineNow);
    statements(isWriting ? "BEGIN IMMEDIATE" : "BEGIN").run();
    stage = "run";
    const commit = openCommit(session, machineNow);
    const done = runCalls(commit, calls);
    stage = "commit";
    statements("COMMIT").run();
    if (retries === 0) return done;
    return { ...done, hints: [...done.hints, { kind: "unreadable", count: retries }] };
  } catch (error) {
    if (stage !== "begin") rollBack(session);
    if (stage !== "run") return failed(session, calls, error, stage === "commit" && isWriting);
    if (calls.length > 1) return commitSingly(session, calls, machineNow);
    const trouble =
      retries < retriesMax && mayRetry(error) ? tryToClear(session, machineNow, error, retries) : error;
    return trouble === null
      ? commitCalls(session, calls, machineNow, retries + 1)
      : failed(session, calls, trouble, false);
  }
}

function openCommit(session: Session, machineNow: number): Commit {
  const { statements, routes, epoch } = session;
  session.lastNow = Math.max(storeNow(statements, machineNow), session.lastNow);
  return beginCommit({ statements, routes, epoch, now: session.lastNow });
}

/** Claims come last, so that they see the jobs of the calls that were made in the same flush. */
function runCalls(commit: Commit, calls: readonly Call[]): CommitOutcome {
  const hints = emptyHints();
  const outcomes: CallOutcome[] = [];
  const emitted: number[] = [];
  const freed = new Set<number>();
  const run = (isTurnOfClaims: boolean): void => {
    for (const [index, { operation, request }] of calls.entries()) {
      if ((operation === "claim") !== isTurnOfClaims) continue;
      // Submits that follow each other are written together; whatever else comes sees what was written.
      if (operation !== "submit") flushCommit(commit);
      const step = beginStep(commit);
      const operate = operations[operation] as (step: Step, request: unknown) => unknown;
      const answer = operate(step, request);
      outcomes[index] = { kind: "answer", answer };
      const number = endStep(step, hints);
      if (number !== null) emitted.push(number);
      if (!isTurnOfClaims) continue;
      for (const route of hints.routes) freed.add(route);
      dropTaken(hints, request as ClaimRequest, answer as ClaimAnswer);
    }
  };
  run(false);
  run(true);
  for (const route of hints.routes) freed.add(route);
  flushCommit(commit);
  const { now, hasMovedLanes: hasLanes } = commit;
  return { outcomes, hints: contractHints(hints), emitted, now, freed: { routes: [...freed], hasLanes } };
}

/**
 * What became ready before a claim that asked for more than there was is no news: it would be asked for again in vain.
 */
function dropTaken({ routes }: Hints, { offers }: ClaimRequest, { jobs, more }: ClaimAnswer): void {
  const [offer] = offers;
  if (offer === undefined || offers.length > 1 || more || jobs.length >= offer.max) return;
  for (const route of offer.routes) routes.delete(route);
}

/** Keeps as unreadable what could not be read. Answers null when the calls may run again, else why they have failed. */
/** @returns null if the calls may be tried again, else what to answer. */
function tryToClear(session: Session, machineNow: number, error: unknown, retries: number): unknown {
  try {
    const mayRun = inWriteTransaction(session.database, () =>
      clearUnreadable(openCommit(session, machineNow), error, retries > 0, session.searches),
    );
    return mayRun ? null : error;
  } catch (trouble) {
    return trouble;
  }
}

function commitSingly(session: Session, calls: readonly Call[], machineNow: number): CommitOutcome {
  const commits = calls.map((call) => commitCalls(session, [call], machineNow));
  return {
    outcomes: commits.flatMap(({ outcomes }) => outcomes),
    hints: commits.flatMap(({ hints }) => hints),
    emitted: commits.flatMap(({ emitted }) => emitted),
    now: Math.max(...commits.map(({ now }) => now)),
    freed: {
      routes: commits.flatMap(({ freed }) => freed.routes),
      hasLanes: commits.some(({ freed }) => freed.hasLanes),
    },
  };
}

/** Some errors end the transaction by themselves. Routes written in it never came to be. */
function rollBack(session: Session): void {
  session.routes.clear();
  if (session.database.isTransaction) session.statements("ROLLBACK").run();
}

function failed(session: Session, calls: readonly Call[], error: unknown, isCommit: boolean): CommitOutcome {
  const outcome: CallOutcome = isBusy(error)
    ? { kind: "busy" }
    : { kind: "error", error: storeError(error, session.path, isCommit) };
  return {
    outcomes: calls.map(() => outcome),
    hints: [],
    emitted: [],
    now: session.lastNow,
    freed: nothingFreed,
  };
}
