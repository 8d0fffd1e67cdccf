/**
 * The tables, and the numbered migrations that make them. The columns of jobs follow from the table of fields
 * (columns.ts).
 *
 *  millrace_spec     what a job is: written at submit, never moved. seq is given here and never used again
 *  millrace_job      where a live job stands: narrow, so that claims and settles touch few pages. Leaves at the end
 *  millrace_history  how a finished job ended, under the same seq
 *  millrace_route    route number -> its content
 *  millrace_state_count  jobs per route and state, exact at commits
 *  millrace_unique   key -> the job that holds it         millrace_tag      tag -> jobs
 *  millrace_log      log lines and output of jobs         millrace_doc      versioned documents
 *  millrace_journal  entries of durable runs              millrace_slip     results without a number, of durable runs
 *  millrace_past_key keys of earlier rounds of durable runs, which are still refused
 *  millrace_gate     what a claim must pass               millrace_gate_route  key of a gate -> routes, with weights
 *  millrace_lane     lane -> its first job, its turn, the gate at which it waits
 *  millrace_line     the ready jobs with a lane, in order
 *  millrace_turn     the turn that a queue has reached    millrace_permit   gate of a key -> what is held, token time
 *  millrace_unreadable    records that could not be read
 *  millrace_feed     one packed record per changing call  millrace_meta     schema version, epoch, floors, openers
 *
 * A live row is in one of the indexes ready, due and running at most. One that does not run and has a timer is also in
 * wake if it is suspended, else in clock: its timer is its due time, a deadline, a ttl or the end of its suspension. A
 * state that this version does not know is in none of them. All names start
 * with millrace_ because the user's own tables live in the same file.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnsDdl, finishedNames, liveNames, specNames } from "./columns.ts";
import { sql } from "../../../store/sql.ts";

export interface Migration {
  readonly version: number;
  readonly sql: string;
}

const { scheduled, ready, running, suspended, completed } = stateCodes;
const bySeq = { seq: "PRIMARY KEY" };

/**
 * Conditions of the partial indexes, which every change of a state evaluates: a list of three states in one of them
 * made a claim with its settle a sixth slower than comparisons do. A statement that uses an index repeats its
 * condition, or SQLite does not see that it may.
 */
export const isReady = `state = ${ready}`;
export const isScheduled = `state = ${scheduled}`;
export const isRunning = `state = ${running}`;
export const isWatched = `timer_at IS NOT NULL AND state <> ${running} AND state < ${suspended}`;
export const isSuspended = `state = ${suspended}`;
/** Apart from the others, so that neither a flood of wakes nor one of due jobs is read for the other's sake. */
export const isWaking = `${isSuspended} AND timer_at IS NOT NULL`;
export const isNotCompleted = `state <> ${completed}`;
/** Of a finished job: it holds its group on. */
export const isKeeping = "keeps_lane = 1";
/** Of an entry of a journal: nobody has read it. */
export const isUnread = "unread > 0";

/** Of a lane: its first job may be claimed; it waits at the gate of a key; it has no ready job. */
export const isOpenLane = "route IS NOT NULL AND waits_at IS NULL";
export const isLanedRoute = "lanes IS NOT NULL";
export const isWaitingLane = "waits_at IS NOT NULL";
export const isEmptyLane = "route IS NULL AND queue IS NOT NULL";

const first = sql`
CREATE TABLE millrace_route (
  number INTEGER PRIMARY KEY, queue TEXT NOT NULL, name TEXT NOT NULL, requires TEXT NOT NULL, gates TEXT NOT NULL,
  lanes TEXT
);
CREATE INDEX millrace_route_lanes ON millrace_route (number) WHERE ${isLanedRoute};
CREATE TABLE millrace_gate (
  key TEXT PRIMARY KEY, version INTEGER NOT NULL, cap INTEGER, step_us INTEGER, burst_us INTEGER,
  tat_us INTEGER NOT NULL, closed_until INTEGER, is_intake_closed INTEGER NOT NULL, per_key TEXT, body TEXT
) WITHOUT ROWID;
CREATE TABLE millrace_gate_route (
  key TEXT NOT NULL, route INTEGER NOT NULL, weight INTEGER NOT NULL, PRIMARY KEY (key, route)
) WITHOUT ROWID;
CREATE TABLE millrace_line (
  lane INTEGER NOT NULL, rank INTEGER NOT NULL, seq INTEGER NOT NULL, route INTEGER NOT NULL, timer_at INTEGER,
  PRIMARY KEY (lane, rank, seq)
) WITHOUT ROWID;
CREATE TABLE millrace_lane (
  number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, queue TEXT, pos INTEGER NOT NULL, waits_at TEXT,
  rank INTEGER, seq INTEGER, route INTEGER, timer_at INTEGER
);
CREATE INDEX millrace_lane_open ON millrace_lane (route, pos, seq) WHERE ${isOpenLane};
CREATE INDEX millrace_lane_waiting ON millrace_lane (waits_at, route, pos, seq) WHERE ${isWaitingLane};
CREATE INDEX millrace_lane_empty ON millrace_lane (queue, pos) WHERE ${isEmptyLane};
CREATE TABLE millrace_turn (queue TEXT PRIMARY KEY, top INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE millrace_permit (
  key TEXT PRIMARY KEY, held INTEGER NOT NULL, tat_us INTEGER NOT NULL, opens_at INTEGER
) WITHOUT ROWID;
CREATE INDEX millrace_permit_opens ON millrace_permit (opens_at) WHERE opens_at IS NOT NULL;
CREATE TABLE millrace_spec (${columnsDdl(specNames, { seq: "PRIMARY KEY AUTOINCREMENT", id: "UNIQUE" })});
CREATE TABLE millrace_job (${columnsDdl(liveNames, bySeq)});
CREATE INDEX millrace_job_ready ON millrace_job (route, rank, seq) WHERE ${isReady};
CREATE INDEX millrace_job_due ON millrace_job (route, due_at, seq) WHERE ${isScheduled};
CREATE INDEX millrace_job_running ON millrace_job (timer_at, seq) WHERE ${isRunning};
CREATE INDEX millrace_job_clock ON millrace_job (timer_at, seq, deadline_at, ttl_at) WHERE ${isWatched};
CREATE INDEX millrace_job_wake ON millrace_job (timer_at, seq, deadline_at) WHERE ${isWaking};
CREATE TABLE millrace_history (${columnsDdl(finishedNames, bySeq)});
CREATE INDEX millrace_history_other ON millrace_history (seq) WHERE ${isNotCompleted};
CREATE INDEX millrace_history_keeping ON millrace_history (seq) WHERE ${isKeeping};
CREATE INDEX millrace_history_keep ON millrace_history (keep_until, seq) WHERE keep_until IS NOT NULL;
CREATE INDEX millrace_history_result ON millrace_history (result_until, seq) WHERE result_until IS NOT NULL;
CREATE TABLE millrace_unique (
  key TEXT PRIMARY KEY, seq INTEGER NOT NULL, id TEXT NOT NULL, held_until INTEGER
) WITHOUT ROWID;
CREATE INDEX millrace_unique_time ON millrace_unique (held_until) WHERE held_until IS NOT NULL;
CREATE TABLE millrace_tag (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq)) WITHOUT ROWID;
CREATE TABLE millrace_log (
  seq INTEGER NOT NULL, fence INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (seq, fence, number)
) WITHOUT ROWID;
CREATE TABLE millrace_journal (
  seq INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,
  unread INTEGER NOT NULL, is_foreign INTEGER NOT NULL, PRIMARY KEY (seq, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX millrace_journal_key ON millrace_journal (seq, key);
CREATE INDEX millrace_journal_unread ON millrace_journal (seq, unread) WHERE ${isUnread};
CREATE TABLE millrace_past_key (
  seq INTEGER NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (seq, number), UNIQUE (seq, key)
) WITHOUT ROWID;
CREATE TABLE millrace_slip (
  seq INTEGER NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (seq, key)
) WITHOUT ROWID;
CREATE TABLE millrace_doc (
  kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  due_at INTEGER, expires_at INTEGER,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX millrace_doc_due ON millrace_doc (due_at, kind, id) WHERE due_at IS NOT NULL;
CREATE INDEX millrace_doc_expiry ON millrace_doc (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE millrace_state_count (
  route INTEGER NOT NULL, state INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (route, state)
) WITHOUT ROWID;
CREATE TABLE millrace_unreadable (
  ref TEXT PRIMARY KEY, id TEXT, why TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE millrace_feed (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, body TEXT NOT NULL);
`;

export const migrations: readonly Migration[] = [{ version: 1, sql: first }];

export const schemaVersion = 1;
