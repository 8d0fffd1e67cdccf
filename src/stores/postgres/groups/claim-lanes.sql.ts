/**
 * Which jobs of lanes a claim takes (rules R6, R7), in their order: the first jobs of open lanes, and after each the
 * next job of its lane. If lanes are ordered by rank, that is the order of all these jobs. If they are ordered by turn,
 * the i-th job of a lane comes where the lane will be after i - 1 turns. That place is known in advance: max(turn, T)
 * and the steps of the jobs before it.
 *
 * A look finds jobs in sets, as far as their order is certain: up to the last lane that was read if there may be more
 * lanes, and up to the last job that was read of a lane that may have more. Then the jobs pass their gates one by one.
 * If that does not fill the offer, the result is written (jobs that pass, lanes that wait at gates from now on), and a
 * wider look is taken at the remaining lanes. So a lane that was refused is not read to its full depth. A look that has
 * found nothing is repeated over twice as many lanes.
 *
 * A claim never waits for rows that another call holds, and never overtakes them: it leaves out their lanes.
 */
import { storeLimits } from "../../../store/contract-limits.ts";
import { itemEnd, nullItem } from "../functions/packed-values.ts";
import { admit, choosePlaces } from "./lane-admission.sql.ts";
import { declareLooked, lanesOfRoutes, lookAtCandidates } from "./lane-candidates.sql.ts";
import { hold, writeLanes } from "./lane-update.sql.ts";
import { timeNow } from "../functions/call.sql.ts";
import { byIndex } from "../functions/call.sql.ts";
import { sql } from "../../../store/sql.ts";

const { lockWaitMs } = storeLimits;

/** The most lanes of one look, and the most looks of one claim. A worker that wants more claims again. */
const lanesMax = 4096;
const looksMax = 16;

/** v_laned: routes of the call that have lanes; null for none. v_key_gates: gates of keys of the picked jobs. */
export const declareLanes = sql`
  v_has_lanes bool; v_laned int8[]; v_queues text[]; v_scopes text[]; v_is_laned bool := false; v_pick_lanes record;
  v_woken text[]; v_open_gates text[]; v_lane_shut text[] := '{}'; v_look int4; v_deep int4; v_key_gates text;
  v_offer_laned int8[];`;

export const hasLanes = "EXISTS (SELECT 1 FROM @route WHERE lanes IS NOT NULL)";

/**
 * Runs before the gates are locked. If another claim of their scopes takes too long, offers with lanes are left out.
 */
export const lockLanes = sql`
  IF v_has_lanes THEN
    SELECT array_agg(DISTINCT number), array_agg(DISTINCT queue) INTO v_laned, v_queues
    FROM @route WHERE number = ANY (p_routes) AND lanes IS NOT NULL;
    IF v_laned IS NOT NULL THEN
      SELECT l.scopes, l.is_busy INTO v_scopes, v_busy FROM @lock_scopes_v1(v_queues, true) l;
      IF v_busy THEN
        v_opens := now + ${lockWaitMs};
      ELSE
        now := greatest(now, ${timeNow});
        SELECT d.woken, d.open_gates, d.more INTO v_woken, v_open_gates, v_more
        FROM @apply_lane_changes_v1(now, v_scopes, false) d;
      END IF;
      v_busy := NULL;
    END IF;
  END IF;`;

/** Picks into v_places, in order. */
export const pickLanes = sql`
  v_offer_laned := ARRAY(SELECT r FROM unnest(v_offer) r WHERE r = ANY (v_laned));
  SELECT * INTO v_pick_lanes FROM @pick_lanes_v1(now, v_offer_laned, v_left, v_bytes, v_scopes, v_gates,
    v_shut || v_lane_shut, v_woken, v_floor, v_look, v_deep);
  v_look := v_look + 1;
  v_deep := v_pick_lanes.next_deep;
  v_cut := NULL;
  v_rated := false;
  v_places := v_pick_lanes.places;
  v_key_gates := array_to_string(v_pick_lanes.gates, ${itemEnd}, ${nullItem});
  v_pick := v_pick + v_pick_lanes.look_us;
  v_lowest[v_i] := coalesce(v_lowest[v_i], v_pick_lanes.lowest);
  v_lane_shut := v_pick_lanes.shut;
  v_woken := v_pick_lanes.left_woken;
  v_opens := least(v_opens, v_pick_lanes.opens);
  CONTINUE WHEN v_pick_lanes.again AND v_places IS NULL;
  v_got := CASE WHEN v_pick_lanes.again THEN array_length(v_places, 1) ELSE v_left END;
  v_more := v_more OR v_pick_lanes.more
    OR (v_open_gates <> '{}' AND NOT v_pick_lanes.again
      AND coalesce(array_length(v_places, 1), 0) < v_left);`;

/** Runs at the end of a call. */
export const leaveLanes = sql`
  IF v_open_gates <> '{}' OR v_woken <> '{}' THEN
    PERFORM @reopen_lanes_v1(now, v_woken, v_open_gates);
  END IF;`;

export const claimLanesSql = sql`
-- Takes up to p_max jobs of p_routes, until their inputs reach p_bytes, and writes what that means for their lanes and
-- gates; the caller leases them.
--   gates      of the keys of each job; null if none has any
--   p_scopes, p_gates   the scopes of their queues and the gates of the routes, which are locked
--   shut       p_shut, and the gates that have refused a job
--   p_floor    open lanes of a lower place are not read (floors.ts says why)
--   lowest, look_us     the first place that was read, and how long finding lanes took
--   p_woken    lanes that wait at gates and are looked at again; left_woken: those of them that were not written
--   p_look     the number of this look, from 0
--   p_deep     how many jobs of each lane to read at least: next_deep of the last look
--   again      there may be more to take
--   bad        jobs whose input is gone; then nothing was taken
CREATE FUNCTION @pick_lanes_v1(p_now int8, p_routes int8[], p_max int4, p_bytes int8, p_scopes text[], p_gates text[],
  p_shut text[], p_woken text[], p_floor int8, p_look int4, p_deep int4,
  OUT again bool, OUT next_deep int4, OUT places tid[], OUT seqs int8[], OUT gates text[], OUT shut text[],
  OUT opens int8, OUT more bool, OUT bad text[], OUT left_woken text[], OUT lowest int8, OUT look_us int8)
  LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_bound int8[]; v_lanes int4 := least(greatest(p_max, 16) * (2 ^ p_look)::int4, ${lanesMax}); v_count int4;
  v_deep int4 := p_deep; v_skipped text[] := '{}'; v_taken int4; v_got int8; v_use int4; v_first int4; v_lane int4;
  v_gate int4; v_refused bool; v_over bool[]; v_last int4[]; v_seen int4[]; v_from int4[]; v_to int4[];
  v_chosen int4[]; v_wait_uses int4[]; v_held tid[]; v_clock int8; v_any_shut bool; v_any_waits bool;
  v_began timestamptz; v_takes bool[];
  l_place tid[]; l_key text[]; l_pos int8[]; l_seq int8[]; l_turn int8[]; l_queue text[]; l_waits_at text[];
  g_passed int8[]; g_weight int8[];
  ${declareLooked}
BEGIN
  shut := p_shut;
  left_woken := p_woken;
  look_us := 0;
  LOOP
    -- Nothing may be left of a look that was given up because another call holds its jobs.
    places := NULL; seqs := NULL; gates := NULL; again := false; more := false;
    v_began := clock_timestamp();
    ${lanesOfRoutes}
    look_us := look_us + extract(epoch FROM clock_timestamp() - v_began) * 1000000;
    v_count := coalesce(array_length(l_key, 1), 0);
    v_bound := CASE WHEN v_count >= v_lanes THEN ARRAY[l_pos[v_lanes], l_seq[v_lanes] + 1] END;
    IF v_count > 0 THEN
      v_deep := greatest(ceil(p_max::float8 / v_count)::int4 + 1, v_deep);
      ${lookAtCandidates}
      lowest := coalesce(lowest, least(l_pos[1], c_pos[1]));
      ${admit}
      ${choosePlaces}
      again := v_taken < p_max AND v_got < p_bytes AND v_end IS NOT NULL;
      IF again THEN
        next_deep := CASE WHEN v_end = 0 OR v_over[v_end] THEN v_deep ELSE 2 * v_deep END;
        IF v_taken = 0 AND NOT v_any_waits AND v_lanes < ${lanesMax} THEN
          v_lanes := v_lanes * 2;
          v_deep := 2 * v_deep;
          CONTINUE;
        END IF;
        again := (v_taken > 0 OR v_any_waits) AND p_look < ${looksMax};
        more := NOT again;
      END IF;
      more := more OR (v_got >= p_bytes AND (v_taken < v_certain OR v_end IS NOT NULL));
      IF array_position(c_bytes, NULL) IS NOT NULL THEN
        SELECT array_agg(w.id) INTO bad FROM unnest(v_chosen) c JOIN @waiting w ON w.ctid = c_place[c]
        WHERE c_bytes[c] IS NULL;
        EXIT WHEN bad IS NOT NULL;
      END IF;
      ${hold}
      ${writeLanes}
    END IF;
    EXIT;
  END LOOP;
  SELECT min(k.opens_at) INTO v_clock FROM unnest(p_scopes) s(scope) CROSS JOIN LATERAL (
    SELECT opens_at FROM @key_clock k WHERE k.scope = s.scope AND opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) k;
  opens := least(opens, v_clock, CASE WHEN v_unknown THEN p_now + ${lockWaitMs} END);
END $$;
`;
