/**
 * Stretches (docs/decisions/0023): the next jobs of many lanes that take turns, put into the order of claims at once. A
 * claim by turn moves every lane that it takes from, which costs more than all else of it; where the lines are long,
 * thousands of jobs are picked together, each lane is moved once, and claims take what stands next. The table
 * lane_stretch has one row for each stretch, lane_turn names the one of a queue and how many of its jobs were taken.
 *
 *   no stretch ──a claim was full, lines are long──► laid ──all taken──► no stretch
 *                                                     └──anything unusual──► broken: no stretch, none for a while
 *
 * What is kept true while there is one:
 * - Its jobs are of its routes, without gates, and stand as they would be claimed one after the other, as long as the
 *   turn that the queue has reached (T) is not behind its next one: then a lane that is taken from stands one step
 *   behind its job, whatever T is.
 * - Each of its lanes shows the first job behind it, at the turn behind it, or none; lane.stretch names it, and the
 *   last job that the lane has in it. So these lanes stand behind all of it, and other lanes wherever they belong: a
 *   claim takes from the stretch up to the first lane that is shown, or from lanes up to its next job.
 * - No other claim takes from these lanes: a look at one finds its first job, which is of the routes of the stretch,
 *   and a claim that asks for some of its routes and not for the same ones breaks it.
 *
 * It is broken where a lane of it has changed in any other way than by arrivals behind (lane_touch.rank), where a job
 * is not to be had as it was found, and where T has gone beyond it by other routes. Then each lane shows its next job
 * where that would have stood, and all is as if there had never been one. What a stretch has found of a job (its place)
 * is compared with its row when it is taken.
 */
import { stateCodes } from "../../../model/job-state.ts";
import type { LaneOrder } from "../../../model/lane.ts";
import { wholeInput } from "../columns.ts";
import { byIndex, headOf } from "./lanes.ts";

const { ready } = stateCodes;

/** A stretch is for so many full claims, and for so many jobs where claims are small. */
const claimsMax = 16;
const jobsMin = 1000;
const jobsMax = 16_000;
/** Of so many lanes at most. */
const lanesMax = 4096;
/** Where none could be laid, or one was broken, none is laid for so long: both cost as much as a few claims. */
const pauseMs = 1000;

const byTurn: LaneOrder = "turn";

/**
 * Of the first v_deep jobs of each lane those that have no gates, are of p_routes and make the same step as the first
 * one (usual), but the last one where others stand behind it: that one the lane shows. All of them end where the first
 * lane ends of which not all were seen. The lists of a lane are kept together: numbering and sorting the rows of all
 * lanes took twice as long.
 */
const lay = `
    WITH found AS MATERIALIZED (
      SELECT l.lane, l.lane_place, l.turn, j.steps[1] AS step, j.*,
        CASE WHEN j.are_alike THEN j.jobs ELSE (SELECT min(at)::int4 - 1 FROM unnest(j.steps) WITH ORDINALITY s(step, at) WHERE s.step IS NULL OR s.step <> j.steps[1]) END AS usual
      FROM unnest(l_place, l_key, l_turn) WITH ORDINALITY l(lane_place, key, turn, lane) CROSS JOIN LATERAL (
        SELECT count(*)::int4 AS jobs, count(step) = count(*) AND min(step) = max(step) AS are_alike,
          array_agg(step) AS steps, array_agg(place) AS places, array_agg(seq) AS seqs, array_agg(rank) AS ranks, array_agg(route) AS routes
        FROM (SELECT ctid AS place, seq, rank, route, CASE WHEN route = ANY (p_routes) AND lane_gates IS NULL THEN lane_step END AS step FROM @waiting WHERE lane_key = l.key AND state = ${ready} ORDER BY rank, seq LIMIT v_deep) j) j),
    ends AS MATERIALIZED (SELECT least(min(turn + (jobs - 1) * step) FILTER (WHERE usual = v_deep), v_bound) AS bound FROM found),
    parts AS MATERIALIZED (
      SELECT f.*, least(CASE WHEN f.usual = f.jobs AND f.jobs < v_deep THEN f.jobs ELSE f.usual - 1 END, CASE WHEN e.bound IS NOT NULL THEN greatest(0, (e.bound - f.turn + f.step - 1) / f.step) END)::int4 AS laid
      FROM found f, ends e WHERE f.usual > 0),
    stretch AS (
      INSERT INTO @lane_stretch (number, routes, last_rank, places, seqs, turns, lanes, keys)
      SELECT v_number, ARRAY(SELECT DISTINCT r FROM unnest(p_routes) r ORDER BY r), max(rank), array_agg(place), array_agg(seq), array_agg(turn), array_agg(lane), l_key FROM (
        SELECT p.turn + (e.at - 1) * p.step AS turn, e.seq, e.place, e.rank, p.lane::int4 AS lane FROM parts p CROSS JOIN LATERAL unnest(p.places[:p.laid], p.seqs[:p.laid], p.ranks[:p.laid]) WITH ORDINALITY e(place, seq, rank, at)
        ORDER BY turn, seq) e
      HAVING count(*) >= 2 * p_max RETURNING number)
    UPDATE @lane l SET route = p.routes[p.laid + 1], pos = p.turn + p.laid * p.step, seq = p.seqs[p.laid + 1], turn = p.turn + p.laid * p.step,
        stretch = v_number, stretch_rank = p.ranks[p.laid], stretch_seq = p.seqs[p.laid]
      FROM parts p WHERE l.ctid = p.lane_place AND p.laid > 0 AND EXISTS (SELECT 1 FROM stretch);`;

export const stretchSql = `
-- Each lane shows its next job again, where it would stand without the stretch.
CREATE FUNCTION @break_stretch_v1(p_now int8, p_number int8) RETURNS void LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
BEGIN
  WITH stretch AS MATERIALIZED (SELECT s.keys, t.queue, s.lanes[t.taken + 1:] AS lanes, s.turns[t.taken + 1:] AS turns FROM @lane_stretch s JOIN @lane_turn t ON t.stretch = s.number WHERE s.number = p_number),
  nexts AS (SELECT s.queue, s.keys[e.lane] AS key, min(e.turn) AS turn FROM stretch s, unnest(s.lanes, s.turns) e(lane, turn) GROUP BY 1, 2)
  INSERT INTO @lane AS l (key, queue, route, pos, seq, turn) SELECT n.key, n.queue, h.route, CASE WHEN h.lane_step IS NULL AND h.seq IS NOT NULL THEN h.rank ELSE n.turn END, h.seq, n.turn
    FROM nexts n LEFT JOIN LATERAL (${headOf("n.key")}) h ON true
    ON CONFLICT (key) DO UPDATE SET route = excluded.route, pos = excluded.pos, seq = excluded.seq, turn = excluded.turn, parked = NULL, own_cap = NULL;
  DELETE FROM @lane_stretch WHERE number = p_number;
  UPDATE @lane_turn SET stretch = NULL, next_stretch_at = p_now + ${pauseMs} WHERE stretch = p_number;
END $$;

-- The lanes have changed otherwise than by arrivals of a higher rank than all jobs of stretches: those that they are in are broken.
CREATE FUNCTION @break_stretches_of_v1(p_now int8, p_lanes text[]) RETURNS void LANGUAGE plpgsql ${byIndex} AS $$
BEGIN
  PERFORM @break_stretch_v1(p_now, s.number) FROM @lane_stretch s WHERE EXISTS (SELECT 1 FROM @lane l WHERE l.key = ANY (p_lanes) AND l.stretch = s.number);
END $$;

-- At the end of a full claim of these routes: lays a stretch where they have lanes by turn with long lines.
CREATE FUNCTION @lay_stretch_v1(p_now int8, p_routes int8[], p_max int4) RETURNS void LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_turn record; v_number int8; v_lanes int4; v_laid int4 := 0; v_deep int4; v_bound int8; l_place tid[]; l_key text[]; l_turn int8[];
BEGIN
  SELECT t.queue, t.top INTO v_turn FROM @route r JOIN @lane_turn t ON t.queue = r.queue
    WHERE r.number = p_routes[1] AND r.lanes = '${byTurn}' AND t.stretch IS NULL AND t.next_stretch_at <= p_now LIMIT 1;
  IF NOT FOUND THEN RETURN; END IF;
  SELECT array_agg(place), array_agg(key), array_agg(turn), count(*) FILTER (WHERE queue = v_turn.queue AND turn >= v_turn.top), CASE WHEN count(*) = ${lanesMax} THEN max(pos) END INTO l_place, l_key, l_turn, v_lanes, v_bound FROM (
    SELECT l.* FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (SELECT ctid AS place, key, pos, seq, turn, queue FROM @lane WHERE route = r.route AND parked IS NULL ORDER BY pos, seq LIMIT ${lanesMax}) l
    ORDER BY pos, seq LIMIT ${lanesMax}) l;
  IF v_lanes = cardinality(l_key) THEN
    v_number := nextval('@stretch_number');
    v_deep := ceil(least(greatest(p_max * ${claimsMax}, ${jobsMin}), ${jobsMax})::float8 / v_lanes)::int4 + 1;${lay}
    GET DIAGNOSTICS v_laid = ROW_COUNT;
  END IF;
  UPDATE @lane_turn SET stretch = CASE WHEN v_laid > 0 THEN v_number END, taken = 0, next_stretch_at = CASE WHEN v_laid > 0 THEN 0 ELSE p_now + ${pauseMs} END WHERE queue = v_turn.queue;
END $$;

-- Takes up to p_max jobs of these routes from their stretch, as pick_lanes_v1 does, or nothing: then places is null, and bound says before which place
-- lanes come first; it is null where there is no stretch, or none any more. p_is_open: no gate bounds these routes.
CREATE FUNCTION @take_stretch_v1(p_now int8, p_routes int8[], p_max int4, p_bytes int8, p_is_open bool, p_woken text[], p_resting text[], OUT places tid[], OUT seqs int8[], OUT lowest int8, OUT bound int8[], OUT number int8) LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_stretch record; v_usable bool; v_turns int8[]; v_open int8[]; v_count int4; v_found int4; v_bytes int8; v_is_last bool;
BEGIN
  FOR v_stretch IN SELECT s.number, s.routes, t.queue, t.top, t.taken FROM @lane_stretch s JOIN @lane_turn t ON t.stretch = s.number WHERE s.routes && p_routes LOOP
    number := v_stretch.number;
    v_usable := p_is_open AND (SELECT count(*) = 1 FROM @lane_stretch s WHERE s.routes && p_routes) AND v_stretch.routes = ARRAY(SELECT DISTINCT r FROM unnest(p_routes) r ORDER BY r)
      AND NOT EXISTS (SELECT 1 FROM @lane WHERE key = ANY (p_woken) AND route = ANY (p_routes))
      AND NOT EXISTS (SELECT 1 FROM unnest(p_resting) k CROSS JOIN LATERAL (${headOf("k")}) h WHERE h.route = ANY (p_routes));
    IF v_usable THEN
      SELECT s.places[v_stretch.taken + 1:v_stretch.taken + p_max], s.seqs[v_stretch.taken + 1:v_stretch.taken + p_max], s.turns[v_stretch.taken + 1:v_stretch.taken + p_max], cardinality(s.seqs) <= v_stretch.taken + p_max
        INTO places, seqs, v_turns, v_is_last FROM @lane_stretch s WHERE s.number = v_stretch.number;
      v_usable := coalesce(v_turns[1] >= v_stretch.top, false);
    END IF;
    IF v_usable THEN
      SELECT min(ARRAY[l.pos, l.seq]) INTO v_open FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (SELECT pos, seq FROM @lane WHERE route = r.route AND parked IS NULL ORDER BY pos, seq LIMIT 1) l;
      v_count := cardinality(seqs);
      WHILE v_count > 0 AND ARRAY[v_turns[v_count], seqs[v_count]] > v_open LOOP
        v_count := v_count - 1;
        v_is_last := false;
      END LOOP;
      IF v_count = 0 THEN
        bound := ARRAY[v_turns[1], seqs[1]];
        places := NULL;
        RETURN;
      END IF;
      places := places[:v_count];
      seqs := seqs[:v_count];
      SELECT count(*) FILTER (WHERE h.ctid = h.place AND h.bytes IS NOT NULL), sum(h.bytes) INTO v_found, v_bytes FROM (
        SELECT w.ctid, p.place, octet_length(${wholeInput("w")}) AS bytes FROM unnest(places, seqs) p(place, seq) JOIN @waiting w ON w.ctid = p.place
        WHERE w.seq = p.seq AND w.state = ${ready} AND (w.timer_at IS NULL OR w.timer_at > p_now) FOR UPDATE OF w SKIP LOCKED) h;
      v_usable := v_found = v_count AND v_bytes < p_bytes;
    END IF;
    IF NOT v_usable THEN
      places := NULL;
      PERFORM @break_stretch_v1(p_now, v_stretch.number);
      CONTINUE;
    END IF;
    lowest := v_turns[1];
    IF v_is_last THEN DELETE FROM @lane_stretch WHERE number = v_stretch.number; END IF;
    UPDATE @lane_turn SET top = greatest(top, v_turns[v_count]), taken = taken + v_count, stretch = CASE WHEN NOT v_is_last THEN stretch END WHERE queue = v_stretch.queue;
    DELETE FROM @lane l USING @lane_turn t WHERE t.queue = v_stretch.queue AND l.queue = t.queue AND l.route IS NULL AND l.turn <= t.top;
    RETURN;
  END LOOP;
END $$;
`;
