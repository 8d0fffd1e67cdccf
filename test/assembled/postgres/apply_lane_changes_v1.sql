-- Applies the changes in these scopes. more: there are more changes than one claim applies. p_all: applies all of them,
-- also those below the floor.
CREATE FUNCTION @apply_lane_changes_v1(p_now int8, p_scopes text[], p_all bool,
  OUT woken text[], OUT open_gates text[], OUT more bool) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_open xid8; v_places tid[]; v_lanes text[]; v_reopened text[]; v_gates text[];
BEGIN
  SELECT array_agg(ctid), pg_snapshot_xmin(pg_current_snapshot()) INTO v_places, v_open FROM (
    SELECT t.ctid FROM unnest(p_scopes) s(scope)
      CROSS JOIN LATERAL (
        SELECT CASE WHEN p_all THEN '0' ELSE coalesce((
          SELECT l.xact FROM @lane_floor l
          WHERE l.scope = s.scope AND l.xact <= pg_snapshot_xmax(pg_current_snapshot())), '0') END AS floor) f
      CROSS JOIN LATERAL (
        SELECT ctid FROM @lane_change WHERE scope = s.scope AND xact >= f.floor
        ORDER BY xact LIMIT 100) t
    LIMIT 100) t;
  more := coalesce(cardinality(v_places) = 100, false);
  woken := '{}';
  open_gates := '{}';
  IF v_places IS NOT NULL THEN
    WITH gone AS (DELETE FROM @lane_change WHERE ctid = ANY (v_places) RETURNING lanes, gates, is_reopened)
    SELECT (SELECT array_agg(DISTINCT k) FROM gone, unnest(lanes) k),
      (SELECT array_agg(k) FROM gone, unnest(lanes) k WHERE is_reopened),
      (SELECT array_agg(DISTINCT k) FROM gone, unnest(gates) k)
    INTO v_lanes, v_reopened, v_gates;
    IF NOT more THEN
      INSERT INTO @lane_floor AS o
      SELECT scope, v_open FROM unnest(p_scopes) s(scope)
      WHERE v_open::text::int8 > (coalesce((
        SELECT l.xact FROM @lane_floor l
        WHERE l.scope = s.scope AND l.xact <= pg_snapshot_xmax(pg_current_snapshot())), '0'))::text::int8 + 5000
        ON CONFLICT (scope) DO UPDATE SET xact = excluded.xact;
    END IF;
  END IF;
  IF v_lanes IS NOT NULL THEN
    PERFORM @refresh_lanes_v1(p_now, v_lanes, coalesce(v_reopened, '{}'), p_scopes);
  END IF;
  IF EXISTS (SELECT 1 FROM @key_clock WHERE scope = ANY (p_scopes) AND opens_at <= p_now) THEN
    WITH rung AS (
      UPDATE @key_clock SET opens_at = NULL WHERE scope = ANY (p_scopes) AND opens_at <= p_now RETURNING key)
    SELECT v_gates || array_agg(key) INTO v_gates FROM rung;
  END IF;
  IF v_gates IS NOT NULL AND EXISTS (SELECT 1 FROM @lane WHERE waits_at IS NOT NULL) THEN
    SELECT w.woken, w.open_gates INTO woken, open_gates FROM @wake_lanes_v1(p_now, v_gates) w;
  END IF;
END $$;
