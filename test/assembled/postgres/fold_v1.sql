-- Sums up the deltas and removes duplicate rows: one row of each route, of each of its gates, and one floor remain.
-- Rows that other calls append meanwhile stay as they are. If another fold is running, this one returns at once.
CREATE FUNCTION @fold_v1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('@fold', 0)) THEN RETURN; END IF;
  WITH folded AS (DELETE FROM @state_count RETURNING route, state, count)
  INSERT INTO @state_count
  SELECT route, state, sum(count) FROM folded GROUP BY route, state HAVING sum(count) <> 0;
  DELETE FROM @doc_floor WHERE version < (SELECT max(version) FROM @doc_floor);
  DELETE FROM @route r USING @route o
    WHERE o.number = r.number AND o.ctid < r.ctid
      AND (o.queue, o.name, o.requires, o.gates, coalesce(o.lanes, ''))
        = (r.queue, r.name, r.requires, r.gates, coalesce(r.lanes, ''));
  DELETE FROM @gate_use u USING @gate_use o
    WHERE o.route = u.route AND o.ctid < u.ctid AND (o.key, o.weight) = (u.key, u.weight);
  DELETE FROM @lane_scope s USING @lane_scope o
    WHERE o.queue = s.queue AND o.ctid < s.ctid AND o.scope = s.scope;
END $$;
