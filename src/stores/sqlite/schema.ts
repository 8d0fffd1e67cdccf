/**
 * The tables, and the numbered migrations that make them.
 *
 *  millrace_spec     what a job is: written once at submit, never moved. seq is given here and never used again
 *  millrace_job      where a live job stands: narrow, so that claims and settles touch few pages. Leaves at the end
 *  millrace_history  how a finished job ended, under the same seq
 *  millrace_route    (queue, name) -> small number        millrace_tally    jobs per route and state, exact at every commit
 *  millrace_unique   key -> the job that holds it         millrace_tag      tag -> jobs
 *  millrace_trail    log lines of jobs                    millrace_doc      versioned documents
 *  millrace_feed     one packed record per changing call  millrace_meta     schema version, epoch, relaxed openers
 *
 * A live row is in at most one of ready, due and running, and in clock only when a deadline or a ttl needs watching there. All names start
 * with millrace_ because the user's own tables live in the same file.
 */

export interface Migration {
  readonly version: number;
  readonly sql: string;
}

const first = `
CREATE TABLE millrace_route (number INTEGER PRIMARY KEY, queue TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (queue, name));
CREATE TABLE millrace_spec (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL,
  digest TEXT, unique_key TEXT, unique_hold INTEGER, policy TEXT, meta TEXT, tags TEXT, input TEXT NOT NULL
);
CREATE TABLE millrace_job (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL, route INTEGER NOT NULL, state INTEGER NOT NULL, rank INTEGER NOT NULL,
  due_at INTEGER NOT NULL, timer_at INTEGER, deadline_at INTEGER, ttl_at INTEGER,
  attempt INTEGER NOT NULL, counts_attempt INTEGER NOT NULL, fence INTEGER NOT NULL, settled_fence INTEGER, rev INTEGER NOT NULL,
  cancel_asked INTEGER NOT NULL, holds INTEGER NOT NULL,
  owner TEXT, claimed_at INTEGER, started_at INTEGER, lease_ends_at INTEGER, attempt_ends_at INTEGER, attempts TEXT, progress TEXT
);
CREATE INDEX millrace_job_ready ON millrace_job (route, rank, seq) WHERE state = 2;
CREATE INDEX millrace_job_due ON millrace_job (due_at, seq) WHERE state = 1;
CREATE INDEX millrace_job_running ON millrace_job (timer_at, seq) WHERE state = 3;
CREATE INDEX millrace_job_clock ON millrace_job (timer_at, seq)
  WHERE timer_at IS NOT NULL AND state <> 3 AND (state <> 1 OR timer_at < due_at);
CREATE TABLE millrace_history (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL, route INTEGER NOT NULL, state INTEGER NOT NULL, rank INTEGER NOT NULL,
  due_at INTEGER NOT NULL, deadline_at INTEGER, ttl_at INTEGER,
  attempt INTEGER NOT NULL, counts_attempt INTEGER NOT NULL, fence INTEGER NOT NULL, settled_fence INTEGER, rev INTEGER NOT NULL,
  cancel_asked INTEGER NOT NULL, owner TEXT, claimed_at INTEGER, started_at INTEGER,
  ended_at INTEGER NOT NULL, keep_until INTEGER, reason TEXT, result TEXT, attempts TEXT, progress TEXT
);
CREATE INDEX millrace_history_other ON millrace_history (seq) WHERE state <> 5;
CREATE INDEX millrace_history_keep ON millrace_history (keep_until, seq) WHERE keep_until IS NOT NULL;
CREATE TABLE millrace_unique (key TEXT PRIMARY KEY, seq INTEGER NOT NULL, id TEXT NOT NULL, held_until INTEGER) WITHOUT ROWID;
CREATE INDEX millrace_unique_time ON millrace_unique (held_until) WHERE held_until IS NOT NULL;
CREATE TABLE millrace_tag (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq)) WITHOUT ROWID;
CREATE TABLE millrace_trail (
  seq INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (seq, number)
) WITHOUT ROWID;
CREATE TABLE millrace_doc (
  kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL, due_at INTEGER, expires_at INTEGER,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX millrace_doc_expiry ON millrace_doc (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE millrace_tally (
  route INTEGER NOT NULL, state INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (route, state)
) WITHOUT ROWID;
CREATE TABLE millrace_feed (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, body TEXT NOT NULL);
`;

export const migrations: readonly Migration[] = [{ version: 1, sql: first }];

export const schemaVersion = 1;
