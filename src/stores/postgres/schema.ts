/**
 * The tables. A job is one row that moves: waiting -> leased -> history, and back.
 *
 *  waiting   every live job that nobody runs                 uniq      key -> the job that holds it
 *  leased    running jobs, small and hot                     tag       tag -> jobs, only where there are tags
 *  history   finished jobs, partitioned by day of their end  trail     log lines of jobs
 *  payload   inputs above 1 KiB, written once, never moved   doc       versioned documents
 *  feed      one packed record per changing call             route     number -> queue, name, capabilities
 *  tally     count deltas, appended and folded               meta      schema version, epoch, identity of the cluster
 *  aside     records that could not be read                  doc_floor highest versions of documents that are gone
 *  alive     unlogged: emptied by a crash, a failover or a point-in-time restore, which is how those raise the epoch
 *
 * The three job tables have the same columns (columns.ts), so that a row moves whole. A waiting row is either ready or
 * due, and in clock only when a deadline or a time-to-live needs watching there. Scheduled rows have two indexes: by
 * due time, for the next clock; by route and due time, so that the routes share a promotion. Writes per plain job: 3
 * inserts, 2 deletes, 7 index entries.
 *
 * The number of a route follows from its content, so nothing has to keep two rows of one route apart: a submit adds the
 * row where it sees none, two at once may both add it, readers take distinct ones and a fold leaves one. So nobody
 * waits or fails for the first job of a name.
 */
import { stateCodes } from "../../model/job-state.ts";
import { columnsSql } from "./columns.ts";

const { scheduled, ready, completed } = stateCodes;

/** Waiting jobs one of whose clocks rings before or without their due time. */
export const isInClock = `timer_at IS NOT NULL AND (state <> ${scheduled} OR timer_at < due_at)`;

/** Dead rows are cleared early: a claim walks over them. */
const hot =
  "autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0";
const analysed = "autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000";

export const tablesSql = (s: string): string => `
CREATE TABLE ${s}.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE UNLOGGED TABLE ${s}.alive (epoch int8 NOT NULL);
CREATE TABLE ${s}.route (
  number int8 NOT NULL, queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, caps text COLLATE "C" NOT NULL
);
CREATE INDEX route_number ON ${s}.route (number);
CREATE SEQUENCE ${s}.job_seq;
CREATE SEQUENCE ${s}.feed_id;

CREATE TABLE ${s}.waiting (
  ${columnsSql}
) WITH (${hot}, ${analysed});
CREATE UNIQUE INDEX waiting_id ON ${s}.waiting (id);
CREATE INDEX waiting_seq ON ${s}.waiting (seq);
CREATE INDEX waiting_ready ON ${s}.waiting (route, rank, seq) WHERE state = ${ready};
CREATE INDEX waiting_due ON ${s}.waiting (due_at, seq) WHERE state = ${scheduled};
CREATE INDEX waiting_route_due ON ${s}.waiting (route, due_at, seq) WHERE state = ${scheduled};
CREATE INDEX waiting_clock ON ${s}.waiting (timer_at, seq) WHERE ${isInClock};

CREATE TABLE ${s}.leased (LIKE ${s}.waiting) WITH (${hot}, ${analysed});
CREATE UNIQUE INDEX leased_id ON ${s}.leased (id);
CREATE INDEX leased_timer ON ${s}.leased (timer_at, seq);

CREATE TABLE ${s}.history (LIKE ${s}.waiting) PARTITION BY RANGE (ended_at);
CREATE INDEX history_id ON ${s}.history (id);
CREATE INDEX history_seq ON ${s}.history (seq);
CREATE INDEX history_other ON ${s}.history (seq) WHERE state <> ${completed};
CREATE INDEX history_keep ON ${s}.history (keep_until, seq) WHERE keep_until IS NOT NULL;
CREATE INDEX history_result ON ${s}.history (result_until, seq) WHERE result_until IS NOT NULL;
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
CREATE TABLE ${s}.doc_floor (version int8 NOT NULL);
CREATE INDEX doc_floor_version ON ${s}.doc_floor (version);
CREATE INDEX doc_expiry ON ${s}.doc (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE ${s}.tally (route int8 NOT NULL, state int2 NOT NULL, count int8 NOT NULL) WITH (${hot});
CREATE TABLE ${s}.feed (id int8 NOT NULL DEFAULT nextval('${s}.feed_id'), number int8, at int8 NOT NULL, body text NOT NULL) WITH (${hot});
CREATE UNIQUE INDEX feed_number ON ${s}.feed (number) WHERE number IS NOT NULL;
CREATE INDEX feed_fresh ON ${s}.feed (id) WHERE number IS NULL;
CREATE TABLE ${s}.aside (ref text COLLATE "C" PRIMARY KEY, id text, why text NOT NULL, at int8 NOT NULL, text text NOT NULL);
INSERT INTO ${s}.meta VALUES ('epoch', '1');
INSERT INTO ${s}.alive VALUES (1);
`;
