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
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX gate_of_key ON @gate (key) WHERE key LIKE E'%\t%';
CREATE TABLE @gate_use (key text COLLATE "C" NOT NULL, route int8 NOT NULL, weight int8 NOT NULL);
CREATE INDEX gate_use_key ON @gate_use (key);
CREATE INDEX gate_use_route ON @gate_use (route);
CREATE SEQUENCE @job_seq;
CREATE SEQUENCE @feed_id;

CREATE TABLE @waiting (
  seq int8 NOT NULL,
    created_at int8 NOT NULL,
    route int8 NOT NULL,
    rank int8 NOT NULL,
    due_at int8 NOT NULL,
    fence int8 NOT NULL,
    rev int4 NOT NULL,
    attempt int4 NOT NULL,
    durable int4 NOT NULL,
    state int2 NOT NULL,
    counts_attempt int2 NOT NULL,
    cancel_asked int2 NOT NULL,
    holds int2 NOT NULL,
    keeps_lane int2 NOT NULL,
    id text COLLATE "C" NOT NULL,
    input text COLLATE "C",
    unique_hold int8,
    lane_step int8,
    deadline_at int8,
    ttl_at int8,
    timer_at int8,
    settled_fence int8,
    claimed_at int8,
    started_at int8,
    lease_ends_at int8,
    attempt_ends_at int8,
    ended_at int8,
    keep_until int8,
    result_until int8,
    digest text COLLATE "C",
    unique_key text COLLATE "C",
    lane_key text COLLATE "C",
    lane_gates text COLLATE "C",
    flow text COLLATE "C",
    edges text COLLATE "C",
    freed text COLLATE "C",
    tags text COLLATE "C",
    policy text COLLATE "C",
    meta text COLLATE "C",
    change_token text COLLATE "C",
    waits text COLLATE "C",
    attempts text COLLATE "C",
    progress text COLLATE "C",
    owner text COLLATE "C",
    reason text COLLATE "C",
    result text COLLATE "C"
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
CREATE UNIQUE INDEX waiting_id ON @waiting (id) WITH (deduplicate_items = off);
CREATE INDEX waiting_seq ON @waiting (seq) WITH (deduplicate_items = off);
CREATE INDEX waiting_ready ON @waiting (route, rank, seq) WITH (deduplicate_items = off)
  WHERE state = 2 AND lane_key IS NULL;
CREATE INDEX waiting_lane ON @waiting (lane_key, rank, seq) WHERE state = 2 AND lane_key IS NOT NULL;
CREATE INDEX waiting_due ON @waiting (due_at, seq) WHERE state = 1;
CREATE INDEX waiting_route_due ON @waiting (route, due_at, seq) WHERE state = 1;
CREATE INDEX waiting_clock ON @waiting (timer_at, seq) WHERE timer_at IS NOT NULL AND (state <> 1 OR timer_at < due_at);

CREATE TABLE @leased (LIKE @waiting) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
CREATE UNIQUE INDEX leased_id ON @leased (id) WITH (deduplicate_items = off);
CREATE INDEX leased_timer ON @leased (timer_at, seq) WITH (deduplicate_items = off);

CREATE TABLE @history (LIKE @waiting) PARTITION BY RANGE (ended_at);
CREATE INDEX history_id ON @history (id) WITH (deduplicate_items = off);
CREATE INDEX history_seq ON @history (seq) WITH (deduplicate_items = off);
CREATE INDEX history_other ON @history (seq) WHERE state <> 5;
CREATE INDEX history_keeping ON @history (seq) WHERE keeps_lane = 1;
CREATE INDEX history_keep ON @history (keep_until, seq) WHERE keep_until < 8640000000000000;
CREATE INDEX history_result ON @history (result_until, seq) WHERE result_until IS NOT NULL;
CREATE TABLE @history_rest PARTITION OF @history DEFAULT;

CREATE TABLE @lane (
  key text COLLATE "C" PRIMARY KEY, queue text COLLATE "C" NOT NULL, route int8, pos int8 NOT NULL, seq int8,
  turn int8, waits_at text COLLATE "C", own_cap int8
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lane_open ON @lane (route, pos, seq) WHERE waits_at IS NULL;
CREATE INDEX lane_waiting ON @lane (waits_at, route, pos, seq) WHERE waits_at IS NOT NULL;
CREATE INDEX lane_empty ON @lane (queue, turn) WHERE route IS NULL;
CREATE TABLE @lane_turn (queue text COLLATE "C" PRIMARY KEY, top int8 NOT NULL) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE @lane_scope (queue text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL);
CREATE INDEX lane_scope_queue ON @lane_scope (queue);
CREATE TABLE @lane_floor (scope text COLLATE "C" PRIMARY KEY, xact xid8 NOT NULL) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE @lane_change (
  scope text COLLATE "C" NOT NULL, lanes text[] COLLATE "C", gates text[] COLLATE "C", is_reopened bool,
  xact xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  toast_tuple_target = 8160);
CREATE INDEX lane_change_scope ON @lane_change (scope, xact);
CREATE TABLE @permit (
  key text COLLATE "C" NOT NULL, seq int8 NOT NULL, weight int8 NOT NULL, is_own bool NOT NULL
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX permit_key ON @permit (key);
CREATE INDEX permit_seq ON @permit (seq);
CREATE TABLE @key_clock (key text COLLATE "C" PRIMARY KEY, tat_us float8 NOT NULL, opens_at int8,
  scope text COLLATE "C" GENERATED ALWAYS AS (split_part(key, E'\t', 1)) STORED
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_clock_opens ON @key_clock (scope, opens_at) WHERE opens_at IS NOT NULL;

CREATE TABLE @payload (seq int8 PRIMARY KEY, input text NOT NULL);
CREATE TABLE @uniq (
  key text COLLATE "C" PRIMARY KEY, seq int8 NOT NULL, id text COLLATE "C" NOT NULL, held_until int8
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX uniq_time ON @uniq (held_until) WHERE held_until IS NOT NULL;
CREATE TABLE @tag (tag text COLLATE "C", seq int8, id text COLLATE "C" NOT NULL, PRIMARY KEY (tag, seq));
CREATE TABLE @journal (
  seq int8, fence int8, number int8, at int8 NOT NULL, body text NOT NULL, PRIMARY KEY (seq, fence, number)
);
CREATE TABLE @entry (
  seq int8 NOT NULL, at int8 NOT NULL, number int4 NOT NULL, is_foreign bool NOT NULL, key text COLLATE "C" NOT NULL,
  body text NOT NULL, unread int8, PRIMARY KEY (seq, number)
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX entry_key ON @entry (seq, key) WITH (deduplicate_items = off);
CREATE INDEX entry_unread ON @entry (seq) WHERE unread IS NOT NULL;
CREATE TABLE @slip (
  seq int8, fence int8 NOT NULL, id text COLLATE "C" NOT NULL, key text COLLATE "C", body text NOT NULL,
  PRIMARY KEY (seq, key)
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE @doc (
  kind text COLLATE "C", id text COLLATE "C", version int8 NOT NULL, body text NOT NULL, due_at int8, expires_at int8,
  PRIMARY KEY (kind, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE @doc_floor (version int8 NOT NULL);
CREATE INDEX doc_floor_version ON @doc_floor (version);
CREATE INDEX doc_due ON @doc (due_at, kind, id) WHERE due_at IS NOT NULL;
CREATE INDEX doc_expiry ON @doc (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE @state_count (route int8 NOT NULL, state int2 NOT NULL, count int8 NOT NULL) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX state_count_running ON @state_count (route) WHERE state = 3;
CREATE TABLE @feed (
  id int8 NOT NULL DEFAULT nextval('@feed_id'), number int8, at int8 NOT NULL, body text NOT NULL
) WITH (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE @feed ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX feed_number ON @feed (number) WHERE number IS NOT NULL;
CREATE INDEX feed_fresh ON @feed (id) WHERE number IS NULL;
CREATE TABLE @unreadable (
  ref text COLLATE "C" PRIMARY KEY, id text, why text NOT NULL, at int8 NOT NULL, text text NOT NULL
);
INSERT INTO @meta VALUES ('epoch', '1');
INSERT INTO @alive VALUES (1);
