/**
 * The tables. A job is one row that moves: waiting -> leased -> history, and back.
 *
 *  waiting      every live job that is not running
 *  leased       running jobs, small and hot
 *  history      finished jobs, partitioned by day of their end
 *  payload      inputs above 1 KiB, written once, never moved
 *  uniq         key -> the job that holds it
 *  tag          tag -> jobs, only of jobs with tags
 *  journal      log lines and output of jobs. fence 0: log lines, and the summary under number 0; other fences: chunks
 *  entry        journals of durable runs; slip: results that were committed with rows of the caller
 *  doc          versioned documents; doc_floor: highest versions of deleted documents
 *  feed         one packed record per changing call
 *  route        number -> queue, name, required capabilities, gates
 *  state_count  deltas of how many jobs of a route are in a state, appended and folded
 *  gate         pauses and limits that claims must pass; gate_use: gate -> routes that pass it, and their jobs' weight
 *  permit       gates of keys that jobs hold, a row for each
 *  key_clock    token times of keys, and when lanes that wait there may go on
 *  lane         the first ready job of a lane, and the gate at which it waits; lane_turn: the highest turn of a queue
 *  lane_change  what has happened to lanes and gates of keys, appended; the next claim of lanes applies it
 *  lane_scope   queue -> limits whose keys its jobs take; lane_floor: scope -> changes that were applied
 *  unreadable   records that could not be read
 *  alive        unlogged: a crash, a failover or a point-in-time restore empties it, and so raises the epoch
 *  meta         schema version, epoch, identity of the cluster
 *
 * The three job tables have the same columns (functions/columns.ts), so that a row moves whole. A ready row is
 * in the index by rank. A scheduled row is in two indexes: one by due time, for the next clock; one by route and due
 * time, so that a promotion takes from all routes. A waiting row is in waiting_clock only if a deadline or a
 * time-to-live must be watched there. Writes per plain job: 3 inserts, 2 deletes, 7 index entries.
 *
 * gate_use follows from route, and also has the gate of the queue of every route. Both only grow by appends; a row may
 * be there twice until a fold. How many jobs run on a route, and so hold its gates, is the sum of its deltas in
 * state_count.
 *
 * A ready job with a lane is in the index waiting_lane instead of waiting_ready. It writes more than a plain job: a
 * permit for each gate of a key, the row of its lane, and its part of a lane_change at its submit and at its end.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { keptForeverAt } from "../../../store/rules/finish.ts";
import { columnsSql } from "../functions/columns.ts";
import { isOfKey, scopeOfKey } from "../groups/lane.sql.ts";
import { sql } from "../../../store/sql.ts";

const { scheduled, ready, running, completed } = stateCodes;

/** In all SQL of the store `@name` is a table or a function of its schema. `schema` is the quoted name. */
export function inSchema(sql: string, schema: string): string {
  return sql.replaceAll(/@\.?(?=[\w%])/g, () => `${schema}.`);
}

/** Waiting jobs with a clock besides their due time: one before it, or one of a job that is not scheduled. */
export const isInClock = sql`timer_at IS NOT NULL AND (state <> ${scheduled} OR timer_at < due_at)`;

/**
 * Finished jobs with a retention time of their own. A member of a flow is deleted with its flow, so indexing it
 * would only cost writes.
 */
export const isKeptForATime = `keep_until < ${keptForeverAt}`;

/** Dead rows are cleared early, because claims walk over them. */
const hot = sql`
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0`;
const hotAndAnalysed = sql`
  ${hot},
  autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000`;

/**
 * For indexes whose keys are all different. Looking for duplicates on each full page took a twelfth of the time in
 * which a fan's nodes are freed.
 */
const unlike = "WITH (deduplicate_items = off)";

/** A list of up to one page stays in its row, and Postgres does not try to compress it. */
const inline = "toast_tuple_target = 8160";

/** Ids and times hardly compress. Trying took one of twenty instructions of a claim or a settle of 500 jobs. */
const feedStorage = "ALTER TABLE @feed ALTER COLUMN body SET STORAGE EXTERNAL;";

export const tablesSql = sql`
CREATE TABLE @meta (name text PRIMARY KEY, value text NOT NULL);
CREATE UNLOGGED TABLE @alive (epoch int8 NOT NULL);
CREATE TABLE @route (
  number int8 NOT NULL, queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
  requires text COLLATE "C" NOT NULL, gates jsonb NOT NULL, lanes text
);
CREATE INDEX route_number ON @route (number);
CREATE INDEX route_laned ON @route (number) WHERE lanes IS NOT NULL;
CREATE TABLE @gate (
  key text COLLATE "C" PRIMARY KEY, version int8 NOT NULL, cap int8, step_us float8, burst_us float8,
  tat_us float8 NOT NULL, closed_until int8, is_intake_closed bool NOT NULL, body text,
  has_keys bool NOT NULL, key_cap int8, key_step_us float8, key_burst_us float8
) WITH (
  ${hot});
CREATE INDEX gate_of_key ON @gate (key) WHERE ${isOfKey};
CREATE TABLE @gate_use (key text COLLATE "C" NOT NULL, route int8 NOT NULL, weight int8 NOT NULL);
CREATE INDEX gate_use_key ON @gate_use (key);
CREATE INDEX gate_use_route ON @gate_use (route);
CREATE SEQUENCE @job_seq;
CREATE SEQUENCE @feed_id;

CREATE TABLE @waiting (
  ${columnsSql}
) WITH (
  ${hotAndAnalysed});
CREATE UNIQUE INDEX waiting_id ON @waiting (id) ${unlike};
CREATE INDEX waiting_seq ON @waiting (seq) ${unlike};
CREATE INDEX waiting_ready ON @waiting (route, rank, seq) ${unlike}
  WHERE state = ${ready} AND lane_key IS NULL;
CREATE INDEX waiting_lane ON @waiting (lane_key, rank, seq) WHERE state = ${ready} AND lane_key IS NOT NULL;
CREATE INDEX waiting_due ON @waiting (due_at, seq) WHERE state = ${scheduled};
CREATE INDEX waiting_route_due ON @waiting (route, due_at, seq) WHERE state = ${scheduled};
CREATE INDEX waiting_clock ON @waiting (timer_at, seq) WHERE ${isInClock};

CREATE TABLE @leased (LIKE @waiting) WITH (
  ${hotAndAnalysed});
CREATE UNIQUE INDEX leased_id ON @leased (id) ${unlike};
CREATE INDEX leased_timer ON @leased (timer_at, seq) ${unlike};

CREATE TABLE @history (LIKE @waiting) PARTITION BY RANGE (ended_at);
CREATE INDEX history_id ON @history (id) ${unlike};
CREATE INDEX history_seq ON @history (seq) ${unlike};
CREATE INDEX history_other ON @history (seq) WHERE state <> ${completed};
CREATE INDEX history_keeping ON @history (seq) WHERE keeps_lane = 1;
CREATE INDEX history_keep ON @history (keep_until, seq) WHERE ${isKeptForATime};
CREATE INDEX history_result ON @history (result_until, seq) WHERE result_until IS NOT NULL;
CREATE TABLE @history_rest PARTITION OF @history DEFAULT;

CREATE TABLE @lane (
  key text COLLATE "C" PRIMARY KEY, queue text COLLATE "C" NOT NULL, route int8, pos int8 NOT NULL, seq int8,
  turn int8, waits_at text COLLATE "C", own_cap int8
) WITH (
  ${hot});
CREATE INDEX lane_open ON @lane (route, pos, seq) WHERE waits_at IS NULL;
CREATE INDEX lane_waiting ON @lane (waits_at, route, pos, seq) WHERE waits_at IS NOT NULL;
CREATE INDEX lane_empty ON @lane (queue, turn) WHERE route IS NULL;
CREATE TABLE @lane_turn (queue text COLLATE "C" PRIMARY KEY, top int8 NOT NULL) WITH (
  ${hot});
CREATE TABLE @lane_scope (queue text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL);
CREATE INDEX lane_scope_queue ON @lane_scope (queue);
CREATE TABLE @lane_floor (scope text COLLATE "C" PRIMARY KEY, xact xid8 NOT NULL) WITH (
  ${hot});
CREATE TABLE @lane_change (
  scope text COLLATE "C" NOT NULL, lanes text[] COLLATE "C", gates text[] COLLATE "C", is_reopened bool,
  xact xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (
  ${hot},
  ${inline});
CREATE INDEX lane_change_scope ON @lane_change (scope, xact);
CREATE TABLE @permit (
  key text COLLATE "C" NOT NULL, seq int8 NOT NULL, weight int8 NOT NULL, is_own bool NOT NULL
) WITH (
  ${hot});
CREATE INDEX permit_key ON @permit (key);
CREATE INDEX permit_seq ON @permit (seq);
CREATE TABLE @key_clock (key text COLLATE "C" PRIMARY KEY, tat_us float8 NOT NULL, opens_at int8,
  scope text COLLATE "C" GENERATED ALWAYS AS (${scopeOfKey("key")}) STORED
) WITH (
  ${hot});
CREATE INDEX key_clock_opens ON @key_clock (scope, opens_at) WHERE opens_at IS NOT NULL;

CREATE TABLE @payload (seq int8 PRIMARY KEY, input text NOT NULL);
CREATE TABLE @uniq (
  key text COLLATE "C" PRIMARY KEY, seq int8 NOT NULL, id text COLLATE "C" NOT NULL, held_until int8
) WITH (
  ${hot});
CREATE INDEX uniq_time ON @uniq (held_until) WHERE held_until IS NOT NULL;
CREATE TABLE @tag (tag text COLLATE "C", seq int8, id text COLLATE "C" NOT NULL, PRIMARY KEY (tag, seq));
CREATE TABLE @journal (
  seq int8, fence int8, number int8, at int8 NOT NULL, body text NOT NULL, PRIMARY KEY (seq, fence, number)
);
CREATE TABLE @entry (
  seq int8 NOT NULL, at int8 NOT NULL, number int4 NOT NULL, is_foreign bool NOT NULL, key text COLLATE "C" NOT NULL,
  body text NOT NULL, unread int8, PRIMARY KEY (seq, number)
) WITH (
  ${hot});
CREATE UNIQUE INDEX entry_key ON @entry (seq, key) ${unlike};
CREATE INDEX entry_unread ON @entry (seq) WHERE unread IS NOT NULL;
CREATE TABLE @slip (
  seq int8, fence int8 NOT NULL, id text COLLATE "C" NOT NULL, key text COLLATE "C", body text NOT NULL,
  PRIMARY KEY (seq, key)
) WITH (
  ${hot});
CREATE TABLE @doc (
  kind text COLLATE "C", id text COLLATE "C", version int8 NOT NULL, body text NOT NULL, due_at int8, expires_at int8,
  PRIMARY KEY (kind, id)
) WITH (
  ${hot});
CREATE TABLE @doc_floor (version int8 NOT NULL);
CREATE INDEX doc_floor_version ON @doc_floor (version);
CREATE INDEX doc_due ON @doc (due_at, kind, id) WHERE due_at IS NOT NULL;
CREATE INDEX doc_expiry ON @doc (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE @state_count (route int8 NOT NULL, state int2 NOT NULL, count int8 NOT NULL) WITH (
  ${hot});
CREATE INDEX state_count_running ON @state_count (route) WHERE state = ${running};
CREATE TABLE @feed (
  id int8 NOT NULL DEFAULT nextval('@feed_id'), number int8, at int8 NOT NULL, body text NOT NULL
) WITH (
  ${hot});
${feedStorage}
CREATE UNIQUE INDEX feed_number ON @feed (number) WHERE number IS NOT NULL;
CREATE INDEX feed_fresh ON @feed (id) WHERE number IS NULL;
CREATE TABLE @unreadable (
  ref text COLLATE "C" PRIMARY KEY, id text, why text NOT NULL, at int8 NOT NULL, text text NOT NULL
);
INSERT INTO @meta VALUES ('epoch', '1');
INSERT INTO @alive VALUES (1);
`;
