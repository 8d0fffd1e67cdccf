/**
 * The calls of one turn in one transaction: one commit, one wait for the disk, however many callers. Answers are
 * given only once COMMIT has returned. A call that fails unexpectedly rolls the transaction back and the calls run
 * again one by one, so that only the guilty one fails. A record that cannot be read is set aside, and the call that
 * met it runs again (mend.ts).
 *
 * Everything here is synchronous and plain, so it runs the same in the caller's thread and in a thread of its own.
 */
import type { DatabaseSync } from "node:sqlite";
import { emptyHints } from "../../store/hints.ts";
import type { Hints } from "../../store/hints.ts";
import { readAside, removeAside } from "./aside.ts";
import { auditIndexes } from "./audit.ts";
import { changeIf } from "./change.ts";
import { claim } from "./claim.ts";
import { storeNow } from "./clock.ts";
import { statementsOf } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { putDoc, readDocs } from "./docs.ts";
import { readDue } from "./due.ts";
import { isBusy, storeError } from "./errors.ts";
import type { FileIdentity } from "./file-identity.ts";
import { extendIfLeased, recordIfLeased } from "./extend.ts";
import { findJobs } from "./find.ts";
import { mayMend, mend, mendsMax } from "./mend.ts";
import type { Searches } from "./mend.ts";
import { promoteDue } from "./promote.ts";
import { prune } from "./prune.ts";
import { readFeed, readJobs, readTrail, tallyJobs } from "./read.ts";
import { forgetRoutes, openKnownRoutes, readRoutes } from "./routes.ts";
import type { KnownRoutes } from "./routes.ts";
import { settleIfLeased } from "./settle.ts";
import { beginStep, beginCommit, endStep, flushCommit } from "./step.ts";
import type { Step, Commit } from "./step.ts";
import { submit } from "./submit.ts";

/** Operations that write, each one step of one transaction. */
const writes = {
  submit,
  claim,
  settleIfLeased,
  extendIfLeased,
  recordIfLeased,
  changeIf,
  promoteDue,
  putDocs: (step: Step, puts: Parameters<typeof putDoc>[1][]) => puts.map((put) => putDoc(step, put)),
  prune,
  auditIndexes,
  removeAside,
};

/** Operations that only look. */
const reads = {
  readDue,
  readDocs,
  readJobs: (statements: Statements, _now: number, ids: readonly string[]) => readJobs(statements, ids),
  findJobs: (statements: Statements, _now: number, request: Parameters<typeof findJobs>[1]) =>
    findJobs(statements, request),
  tallyJobs: (statements: Statements) => tallyJobs(statements),
  readRoutes: (statements: Statements) => readRoutes(statements),
  readFeed: (statements: Statements, _now: number, request: Parameters<typeof readFeed>[1]) =>
    readFeed(statements, request),
  readTrail: (statements: Statements, _now: number, request: Parameters<typeof readTrail>[1]) =>
    readTrail(statements, request),
  readAside,
  readNow: (_statements: Statements, now: number) => now,
  /** Changes when another connection has committed. */
  readVersion: (statements: Statements) => (statements("PRAGMA data_version").get() as [version: number])[0],
};

export interface Call {
  readonly operation: keyof typeof writes | keyof typeof reads;
  readonly request: unknown;
}

export type CallOutcome =
  | { readonly kind: "answer"; readonly answer: unknown }
  | { readonly kind: "error"; readonly error: unknown }
  /** The write lock was held by somebody else: nothing happened, try again. */
  | { readonly kind: "busy" };

export interface CommitOutcome {
  readonly outcomes: CallOutcome[];
  /** What each transaction makes known to those who watch: mostly one. */
  readonly hints: Hints[];
  /** Numbers of the feed records written, so that the watch can tell its own from those of others. */
  readonly told: number[];
  /** The store's time of the calls. */
  now: number;
}

/** What is kept between the transactions of one connection. */
export interface Session {
  readonly database: DatabaseSync;
  readonly path: string;
  readonly statements: Statements;
  readonly routes: KnownRoutes;
  readonly epoch: number;
  readonly identity: FileIdentity | null;
  readonly searches: Searches;
  lastNow: number;
}

export function openSession(
  database: DatabaseSync,
  { path, epoch, identity }: Pick<Session, "path" | "epoch" | "identity">,
): Session {
  const [statements, routes] = [statementsOf(database), openKnownRoutes()];
  return { database, path, statements, routes, epoch, identity, searches: { vainAt: null }, lastNow: 0 };
}

/** `mends`: how often these calls have met a record that could not be read, and were tried again. */
export function commitCalls(
  session: Session,
  calls: readonly Call[],
  machineNow: number,
  mends = 0,
): CommitOutcome {
  const hints = emptyHints();
  const done: CommitOutcome = { outcomes: [], hints: [hints], told: [], now: machineNow };
  const isWriting = calls.some((call) => Object.hasOwn(writes, call.operation));
  try {
    session.identity?.check(machineNow);
    session.statements(isWriting ? "BEGIN IMMEDIATE" : "BEGIN").run();
  } catch (error) {
    return failed(session, calls, error, false);
  }
  try {
    const commit = openCommit(session, machineNow);
    done.now = commit.now;
    for (const call of calls) {
      const { answer, number } = runCall(commit, call, hints);
      done.outcomes.push({ kind: "answer", answer });
      if (number !== null) done.told.push(number);
    }
    flushCommit(commit);
  } catch (error) {
    rollBack(session);
    if (calls.length > 1) return commitSingly(session, calls, machineNow);
    const isMended = mends < mendsMax && mayMend(error);
    return isMended
      ? mendAndCommit(session, calls, { machineNow, mends, error })
      : failed(session, calls, error, false);
  }
  try {
    session.statements("COMMIT").run();
  } catch (error) {
    rollBack(session);
    return failed(session, calls, error, isWriting);
  }
  return done;
}

function openCommit(session: Session, machineNow: number): Commit {
  const { statements, routes, epoch } = session;
  session.lastNow = Math.max(storeNow(statements, machineNow), session.lastNow);
  return beginCommit({ statements, routes, epoch, now: session.lastNow });
}

/** Sets aside what could not be read, then runs the calls again. */
function mendAndCommit(
  session: Session,
  calls: readonly Call[],
  {
    machineNow,
    mends,
    error,
  }: { readonly machineNow: number; readonly mends: number; readonly error: unknown },
): CommitOutcome {
  try {
    session.statements("BEGIN IMMEDIATE").run();
    const isMended = mend(openCommit(session, machineNow), error, mends > 0, session.searches);
    session.statements("COMMIT").run();
    if (!isMended) return failed(session, calls, error, false);
  } catch (trouble) {
    rollBack(session);
    return failed(session, calls, trouble, false);
  }
  return commitCalls(session, calls, machineNow, mends + 1);
}

/** `number` is that of the feed record that the call has written, if it has. */
function runCall(
  commit: Commit,
  { operation, request }: Call,
  hints: Hints,
): { answer: unknown; number: number | null } {
  // Submits that follow each other are written together; whatever else comes sees what was written.
  if (operation !== "submit") flushCommit(commit);
  if (!Object.hasOwn(writes, operation)) {
    const read = reads[operation as keyof typeof reads] as (
      statements: Statements,
      now: number,
      request: unknown,
    ) => unknown;
    return { answer: read(commit.statements, commit.now, request), number: null };
  }
  const step = beginStep(commit);
  const write = writes[operation as keyof typeof writes] as (step: Step, request: unknown) => unknown;
  const answer = write(step, request);
  return { answer, number: endStep(step, hints) };
}

function commitSingly(session: Session, calls: readonly Call[], machineNow: number): CommitOutcome {
  const commits = calls.map((call) => commitCalls(session, [call], machineNow));
  return {
    outcomes: commits.flatMap(({ outcomes }) => outcomes),
    hints: commits.flatMap(({ hints }) => hints),
    told: commits.flatMap(({ told }) => told),
    now: Math.max(...commits.map(({ now }) => now)),
  };
}

/** Some errors end the transaction by themselves. Routes written in it never came to be. */
function rollBack(session: Session): void {
  forgetRoutes(session.routes);
  if (session.database.isTransaction) session.statements("ROLLBACK").run();
}

function failed(session: Session, calls: readonly Call[], error: unknown, isCommit: boolean): CommitOutcome {
  const outcome: CallOutcome = isBusy(error)
    ? { kind: "busy" }
    : { kind: "error", error: storeError(error, session.path, isCommit) };
  return { outcomes: calls.map(() => outcome), hints: [], told: [], now: session.lastNow };
}
