-- Runs before anything else of a call is written. Other content under a known number is refused. In a serializable
-- transaction it only adds rows: a look would conflict with every other call that submits the first job of a name.
CREATE FUNCTION @keep_routes_v1(p_numbers int8[], p_queues text[], p_names text[], p_requires text[],
  p_gates text[], p_lanes text[], p_scopes text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_same bool; v_looks bool := current_setting('transaction_isolation') <> 'serializable';
BEGIN
  FOR v_i IN 1..coalesce(array_length(p_numbers, 1), 0) LOOP
    IF v_looks THEN
      SELECT bool_and(queue = p_queues[v_i] AND name = p_names[v_i] AND requires = p_requires[v_i]
        AND gates = p_gates[v_i]::jsonb AND lanes IS NOT DISTINCT FROM p_lanes[v_i])
      INTO v_same FROM @route WHERE number = p_numbers[v_i];
    END IF;
    IF v_same IS NULL THEN
      INSERT INTO @route VALUES (p_numbers[v_i], p_queues[v_i], p_names[v_i], p_requires[v_i],
        p_gates[v_i]::jsonb, p_lanes[v_i]);
      INSERT INTO @gate_use
      SELECT 'q:' || p_queues[v_i] AS key, p_numbers[v_i] AS route, 1 AS weight
      UNION ALL SELECT u->>'key', p_numbers[v_i], (u->>'weight')::int8
      FROM jsonb_path_query(p_gates[v_i]::jsonb, '$[*]') u
      WHERE u->>'key' IS NOT NULL AND jsonb_typeof(u->'weight') = 'number';
    ELSIF NOT v_same THEN
      RAISE EXCEPTION 'millrace: another queue and name have the route number %', p_numbers[v_i]
        USING ERRCODE = 'MR003';
    END IF;
    IF p_scopes[v_i] IS NOT NULL THEN
      INSERT INTO @lane_scope
      SELECT p_queues[v_i], s FROM unnest(string_to_array(p_scopes[v_i], E'\x1f')) s
      WHERE CASE WHEN v_looks THEN NOT EXISTS (
        SELECT 1 FROM @lane_scope o WHERE o.queue = p_queues[v_i] AND o.scope = s) ELSE true END;
    END IF;
  END LOOP;
END $$;
