/**
 * The tables. A job is one row that moves: waiting -> leased -> history, and back.
 *
 *  waiting   every live job that nobody runs                 uniq      key -> the job that holds it
 *  leased    running jobs, small and hot                     tag       tag -> jobs, only where there are tags
 *  history   finished jobs, partitioned by day of their end  trail     log lines of jobs
 *  payload   inputs above 1 KiB, written once, never moved   doc       versioned documents
 *  feed      one packed record per changing call             route     (queue, name) -> small number
 *  tally     count deltas, appended and folded               meta      schema version, epoch, identity of the cluster
 *  alive     unlogged: emptied by a crash, a failover or a point-in-time restore, which is how those raise the epoch
 *
 * The three job tables have the same columns, so that a row moves whole. A waiting row is in at most one of ready and due, and in clock
 * only when a deadline or a time-to-live needs watching there. Writes per plain job: 3 inserts, 2 deletes, 7 index entries.
 */

/** What is always there comes first, fixed widths before texts: reading a column past a null or a text is slower. */
const jobColumns = `
  seq int8 NOT NULL, created_at int8 NOT NULL, due_at int8 NOT NULL, rank int8 NOT NULL, fence int8 NOT NULL,
  route int4 NOT NULL, attempt int4 NOT NULL, rev int4 NOT NULL, state int2 NOT NULL, counts_attempt int2 NOT NULL, holds int2 NOT NULL,
  cancel_asked bool NOT NULL, id text COLLATE "C" NOT NULL, input text,
  timer_at int8, deadline_at int8, ttl_at int8, settled_fence int8, claimed_at int8, started_at int8, lease_ends_at int8, attempt_ends_at int8,
  ended_at int8, keep_until int8, unique_hold int8,
  owner text, policy text, meta text, attempts text, result text, reason text, tags text, progress text, digest text, unique_key text COLLATE "C"`;

/** Dead rows are cleared early: a claim walks over them. */
const hot =
  "autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0";
const analysed = "autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000";

export const tablesSql = (s: string): string => `
CREATE TABLE ${s}.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE UNLOGGED TABLE ${s}.alive (epoch int8 NOT NULL);
CREATE TABLE ${s}.route (
  number int4 PRIMARY KEY, queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, UNIQUE (queue, name)
);
CREATE SEQUENCE ${s}.job_seq;
CREATE SEQUENCE ${s}.try_seq INCREMENT -1;
CREATE SEQUENCE ${s}.feed_id;

CREATE TABLE ${s}.waiting (${jobColumns}) WITH (${hot}, ${analysed});
CREATE UNIQUE INDEX waiting_id ON ${s}.waiting (id);
CREATE INDEX waiting_seq ON ${s}.waiting (seq);
CREATE INDEX waiting_ready ON ${s}.waiting (route, rank, seq) WHERE state = 2;
CREATE INDEX waiting_due ON ${s}.waiting (due_at, seq) WHERE state = 1;
CREATE INDEX waiting_clock ON ${s}.waiting (timer_at, seq) WHERE timer_at IS NOT NULL AND (state <> 1 OR timer_at < due_at);

CREATE TABLE ${s}.leased (LIKE ${s}.waiting) WITH (${hot}, ${analysed});
CREATE UNIQUE INDEX leased_id ON ${s}.leased (id);
CREATE INDEX leased_timer ON ${s}.leased (timer_at, seq);

CREATE TABLE ${s}.history (LIKE ${s}.waiting) PARTITION BY RANGE (ended_at);
CREATE INDEX history_id ON ${s}.history (id);
CREATE INDEX history_seq ON ${s}.history (seq);
CREATE INDEX history_other ON ${s}.history (seq) WHERE state <> 5;
CREATE INDEX history_keep ON ${s}.history (keep_until, seq) WHERE keep_until IS NOT NULL;
CREATE TABLE ${s}.history_rest PARTITION OF ${s}.history DEFAULT;

CREATE TABLE ${s}.payload (seq int8 PRIMARY KEY, input text NOT NULL);
CREATE TABLE ${s}.uniq (key text COLLATE "C" PRIMARY KEY, seq int8 NOT NULL, id text COLLATE "C" NOT NULL, held_until int8) WITH (${hot});
CREATE INDEX uniq_time ON ${s}.uniq (held_until) WHERE held_until IS NOT NULL;
CREATE TABLE ${s}.tag (tag text COLLATE "C", seq int8, id text COLLATE "C" NOT NULL, PRIMARY KEY (tag, seq));
CREATE TABLE ${s}.trail (seq int8, number int4, at int8 NOT NULL, body text NOT NULL, PRIMARY KEY (seq, number));
CREATE TABLE ${s}.doc (
  kind text COLLATE "C", id text COLLATE "C", version int8 NOT NULL, body text NOT NULL, due_at int8, expires_at int8,
  PRIMARY KEY (kind, id)
) WITH (${hot});
CREATE INDEX doc_expiry ON ${s}.doc (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE ${s}.tally (route int4 NOT NULL, state int2 NOT NULL, count int8 NOT NULL) WITH (${hot});
CREATE TABLE ${s}.feed (id int8 NOT NULL DEFAULT nextval('${s}.feed_id'), number int8, at int8 NOT NULL, body text NOT NULL) WITH (${hot});
CREATE UNIQUE INDEX feed_number ON ${s}.feed (number) WHERE number IS NOT NULL;
CREATE INDEX feed_fresh ON ${s}.feed (id) WHERE number IS NULL;
INSERT INTO ${s}.meta VALUES ('epoch', '1');
INSERT INTO ${s}.alive VALUES (1);
`;
