/**
 * claim_v1 (rule R6): moves ready jobs from waiting to leased in order of (rank, seq), each with a new fence and a lease. Never a job one of
 * whose clocks has rung: that one belongs to a duty. Rows that another claim holds are skipped, never waited for.
 *
 * A claim moves the row (delete and insert) instead of updating it: 10.8 against 15.0 us per job by 100. The planner is told to keep to the
 * index: on a freshly filled table without statistics it would sort all that waits.
 *
 * The answer is a list per column; rows of single jobs cost the driver more than the query.
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { stateCodes } from "../../../model/job-state.ts";
import { fieldEnd, itemEnd, nullItem } from "../text.ts";
import { brief, groupedEvents } from "./job.ts";
import { foldEvery, nextClock, timeNow } from "./step.ts";

export const fencesPerEpoch = 2 ** 32;

const { ready, running } = stateCodes;

const joined = (column: string): string =>
  `CASE WHEN count(${column}) > 0 THEN string_agg(coalesce(${column}, ${nullItem}), ${itemEnd}) END`;

const columns =
  "seq, created_at, due_at, rank, fence, route, attempt, rev, counts_attempt, holds, id, input, deadline_at, unique_key, policy, meta, attempts";

/** What another claimer does not hold, at the head of a route. */
const head = (s: string, route: string, limit: string, wanted: string): string =>
  `SELECT ctid, ${wanted} FROM ${s}.waiting WHERE route = ${route} AND rank >= v_floor AND state = ${ready} AND (timer_at IS NULL OR timer_at > now)
    ORDER BY rank, seq LIMIT ${limit} FOR UPDATE SKIP LOCKED`;

const unlike = (column: string, other: string): string =>
  `CASE WHEN NOT bool_and(${column} = ${other}) THEN array_agg(${column}) END`;

/** The rows of a select as lists, one per column. What says nothing, or nothing that another list does not say, is left out. */
const lists = (s: string, rows: string): string => `
        SELECT array_agg(ctid), array_agg(seq), ${brief("greatest(fence, v_fence) + 1")}, ${brief("route")}, ${brief("rev + 1")},
          ${brief("attempt + counts_attempt")}, array_agg(created_at), ${unlike("due_at", "created_at")},
          CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END, string_agg(id, ${itemEnd}),
          string_agg(coalesce(input, (SELECT p.input FROM ${s}.payload p WHERE p.seq = h.seq)), ${itemEnd}),
          ${joined("policy")}, ${joined("meta")}, ${joined("attempts")}, ${unlike("rank", "due_at")},
          array_agg(unique_key) FILTER (WHERE holds = 1), array_agg(seq) FILTER (WHERE holds = 1)
        INTO v_places, seqs, fences, routes, revs, attempts, created, due, deadlines, ids, inputs, policies, metas, logs, ranks, v_keys, v_freed
        FROM (${rows}) h;`;

/** Copies the rows at v_places, which are locked, with a new fence and a lease. */
const lease = (s: string): string => `
        INSERT INTO ${s}.leased (seq, created_at, due_at, rank, timer_at, deadline_at, fence, settled_fence, unique_hold, claimed_at, lease_ends_at,
          route, attempt, rev, state, counts_attempt, holds, cancel_asked, id, owner, digest, unique_key, policy, meta, tags, attempts, progress, input)
        SELECT seq, created_at, due_at, rank, least(v_ends, deadline_at), deadline_at, greatest(fence, v_fence) + 1, settled_fence, unique_hold, now, v_ends,
          route, attempt + counts_attempt, rev + 1, ${running}, 1, CASE holds WHEN 1 THEN 0 ELSE holds END, cancel_asked, id, p_owner, digest, unique_key,
          policy, meta, tags, attempts, progress, input
        FROM ${s}.waiting WHERE ctid = ANY (v_places)`;

/** A single job answers by its copy: what lists need to be set up is a fifth of such a call. */
const leaseOne = (s: string): string => `${lease(s)}
        RETURNING ARRAY[seq], ARRAY[fence], ARRAY[route], ARRAY[rev], ARRAY[attempt], ARRAY[created_at], ARRAY[due_at], ARRAY[rank], ARRAY[deadline_at],
          id, coalesce(input, (SELECT p.input FROM ${s}.payload p WHERE p.seq = leased.seq)), policy, meta, attempts,
          CASE WHEN unique_hold = -1 THEN ARRAY[unique_key] END, ARRAY[seq]
        INTO seqs, fences, routes, revs, attempts, created, due, ranks, deadlines, ids, inputs, policies, metas, logs, v_keys, v_freed;`;

/** Counts and tells what was leased. Most often the jobs are alike; else they are grouped. */
const tell = (s: string): string => `
      IF array_length(routes, 1) = 1 AND array_length(revs, 1) = 1 AND array_length(attempts, 1) = 1 THEN
        v_events := concat_ws(${fieldEnd}, ${eventCodes.claimed}, revs[1], routes[1], ${running}, attempts[1], '', translate(ids, ${itemEnd}, ${fieldEnd}));
        INSERT INTO ${s}.tally VALUES (routes[1], ${ready}, -v_count), (routes[1], ${running}, v_count);
      ELSE
        WITH grouped AS (
          SELECT coalesce(route, routes[1]) AS route, coalesce(rev, revs[1]) AS rev, coalesce(attempt, attempts[1]) AS attempt, count(*) AS jobs,
            string_agg(id, ${fieldEnd}) AS ids
          FROM unnest(routes, revs, attempts, string_to_array(ids, ${itemEnd})) g(route, rev, attempt, id) GROUP BY 1, 2, 3),
        counted AS (
          INSERT INTO ${s}.tally SELECT route, state, jobs * sign FROM (SELECT route, sum(jobs) AS jobs FROM grouped GROUP BY route) g,
            (VALUES (${ready}::int2, -1), (${running}::int2, 1)) v(state, sign))
        SELECT string_agg(${groupedEvents(`${eventCodes.claimed}`, `${running}`, "''")}, ${itemEnd}) INTO v_events FROM grouped;
      END IF;
      v_all := ${s}.and_v1(v_all, v_events);
      IF v_keys IS NOT NULL THEN
        DELETE FROM ${s}.uniq u USING unnest(v_keys, v_freed) f(key, seq) WHERE u.key = f.key AND u.seq = f.seq;
      END IF;`;

/** The fields of an answer, in the order that claim.ts in the store's folder reads. No value holds the character between them; null is empty. */
const answered = [
  ...[
    "now",
    "v_i",
    "seqs",
    "fences",
    "routes",
    "revs",
    "attempts",
    "created",
    "due",
    "deadlines",
    "ids",
    "inputs",
  ],
  ...["policies", "metas", "logs", "ranks"],
];
export const answerFields = answered.length;

export const claimSql = (s: string): string => `
-- Enters this life of the server: answers its epoch, raised when the row that says so is gone. That row is unlogged: a crash, a failover and a
-- restore empty its table, and acknowledged writes or claims may be gone then.
CREATE FUNCTION ${s}.epoch_v1() RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_epoch int8;
BEGIN
  SELECT epoch INTO v_epoch FROM ${s}.alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('${s}.epoch', 0));
  SELECT epoch INTO v_epoch FROM ${s}.alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  -- Whatever this call's durability: an epoch must never be given twice.
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE ${s}.meta SET value = (value::int8 + 1)::text WHERE name = 'epoch' RETURNING value::int8 INTO v_epoch;
  INSERT INTO ${s}.alive VALUES (v_epoch);
  RETURN v_epoch;
END $$;

-- p_ends[i] is the last index of offer i in p_routes. p_floors[i]: rows of lower rank are not looked at (floors.ts says why); null looks at all.
-- Answers one text, because a table of columns costs a small call more than its rows: time, how long finding took in us, the next clock if asked for,
-- new routes, then the lists of each batch.
CREATE FUNCTION ${s}.claim_v1(p_now int8, p_commit text, p_owner text, p_lease int8, p_routes int4[], p_ends int4[], p_maxes int4[], p_floors int8[], p_known int4,
  p_clock bool) RETURNS text LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  now int8 := ${timeNow}; seqs int8[]; fences int8[]; routes int4[]; revs int4[]; attempts int4[]; created int8[]; due int8[]; deadlines int8[];
  ranks int8[]; ids text; inputs text; policies text; metas text; logs text;
  v_ends int8; v_fence int8; v_from int4 := 1; v_offer int4[]; v_left int4; v_got int4; v_batch int4; v_places tid[]; v_count int4;
  v_all text; v_events text; v_keys text[]; v_freed int8[]; v_floor int8; v_began timestamptz; v_pick int8 := 0; v_newest int4; v_clock int8;
  v_routes text; v_feed int8; v_answer text := '';
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  SELECT epoch * ${fencesPerEpoch} INTO v_fence FROM ${s}.alive;
  IF NOT FOUND THEN v_fence := ${s}.epoch_v1() * ${fencesPerEpoch}; END IF;
  FOR v_i IN 1..coalesce(array_length(p_ends, 1), 0) LOOP
    v_offer := p_routes[v_from:p_ends[v_i]];
    v_from := p_ends[v_i] + 1;
    v_left := p_maxes[v_i];
    v_floor := coalesce(p_floors[v_i], -9223372036854775808);
    v_batch := NULL;
    WHILE v_left > 0 LOOP
      v_began := clock_timestamp();
      IF array_length(v_offer, 1) = 1 THEN
        SELECT array_agg(ctid) INTO v_places FROM (${head(s, "v_offer[1]", "least(v_left, 2)", "rank, seq")}) h;
        v_got := v_left;
      ELSE
        v_batch := coalesce(v_batch, ceil(2.0 * v_left / array_length(v_offer, 1)) + 8);
        -- The heads of all routes in one order, as far as it is certain: up to the last row seen of a route that may have more.
        WITH heads AS MATERIALIZED (SELECT r.route, h.* FROM unnest(v_offer) r(route) CROSS JOIN LATERAL (${head(s, "r.route", "v_batch", "rank, seq")}) h),
        ends AS (SELECT min(last) AS last FROM (SELECT max(ARRAY[rank, seq]) AS last FROM heads GROUP BY route HAVING count(*) = v_batch) l)
        SELECT array_agg(ctid), CASE WHEN (SELECT last FROM ends) IS NULL THEN v_left ELSE count(*)::int4 END INTO v_places, v_got
          FROM (SELECT ctid FROM heads, ends WHERE last IS NULL OR ARRAY[rank, seq] <= last ORDER BY rank, seq LIMIT v_left) c;
      END IF;
      v_count := array_length(v_places, 1);
      IF v_count > 1 THEN
        IF v_batch IS NULL THEN${lists(s, head(s, "v_offer[1]", "v_left", columns))}
        ELSE${lists(s, `SELECT ctid, ${columns} FROM ${s}.waiting WHERE ctid = ANY (v_places)`)}
        END IF;
        v_count := array_length(v_places, 1);
      END IF;
      v_pick := v_pick + extract(epoch FROM clock_timestamp() - v_began) * 1000000;
      EXIT WHEN v_count IS NULL;
      -- Jobs that were submitted while this call ran are among them: by the clock of its begin they would be claimed before they were due.
      now := greatest(now, ${timeNow});
      v_ends := now + p_lease;
      IF v_count = 1 THEN${leaseOne(s)}
      ELSE${lease(s)};
      END IF;
      DELETE FROM ${s}.waiting WHERE ctid = ANY (v_places);${tell(s)}
      v_answer := concat(v_answer, ${answered.map((field) => `${fieldEnd}, ${field}`).join(", ")});
      v_left := v_left - greatest(v_got, 1);
    END LOOP;
  END LOOP;
  IF v_all IS NOT NULL THEN
    INSERT INTO ${s}.feed (at, body) VALUES (now, v_all) RETURNING id INTO v_feed;
    IF v_feed % ${foldEvery} = 0 THEN PERFORM ${s}.fold_v1(); END IF;
  END IF;
  SELECT CASE WHEN p_clock THEN ${nextClock(s)} END, (SELECT max(number) FROM ${s}.route) INTO v_clock, v_newest;
  IF v_newest > p_known THEN
    SELECT jsonb_agg(jsonb_build_array(number, queue, name) ORDER BY number) INTO v_routes FROM ${s}.route WHERE number > p_known;
  END IF;
  RETURN concat(now, ${fieldEnd}, v_pick, ${fieldEnd}, v_clock, ${fieldEnd}, v_routes, v_answer);
END $$;
`;
