-- Runs at the end of a submit of jobs with lanes. If no worker claims there, changes pile up until a claim would be
-- slow. Then they are applied now, unless a claim is running: the submit does not wait for it.
CREATE FUNCTION @relieve_claims_v1(p_now int8, p_queues text[]) RETURNS void LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE v_rows int4; v_locked record; v_lanes record;
BEGIN
  SELECT count(*) INTO v_rows FROM (
    SELECT 1 FROM (
      SELECT 'g:' || q AS scope FROM unnest(p_queues) q
      UNION SELECT scope FROM @lane_scope WHERE queue = ANY (p_queues)) s
      CROSS JOIN LATERAL (
        SELECT 1 FROM @lane_change
        WHERE scope = s.scope AND xact >= coalesce((
          SELECT l.xact FROM @lane_floor l
          WHERE l.scope = s.scope AND l.xact <= pg_snapshot_xmax(pg_current_snapshot())), '0')
        ORDER BY xact LIMIT 20) t
    LIMIT 20) t;
  IF v_rows < 20 THEN RETURN; END IF;
  SELECT * INTO v_locked FROM @lock_scopes_v1(p_queues, false);
  IF v_locked.is_busy THEN RETURN; END IF;
  SELECT * INTO v_lanes FROM @apply_lane_changes_v1(p_now, v_locked.scopes, false);
  PERFORM @reopen_lanes_v1(p_now, v_lanes.woken, v_lanes.open_gates);
END $$;
