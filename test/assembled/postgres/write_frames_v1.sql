-- p_put: {numbers, bodies, summary?, restarts?, dropsTo?: [fence, number]}. Guard: the lease is the current one.
CREATE FUNCTION @write_frames_v1(p_now int8, p_seq int8, p_fence int8, p_put jsonb) RETURNS void LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF p_put ? 'restarts' THEN
    DELETE FROM @journal WHERE seq = p_seq AND (fence > 0 AND fence < p_fence OR fence = 0 AND number = 0);
  END IF;
  INSERT INTO @journal
  SELECT p_seq, p_fence, n::int8, p_now, b
  FROM ROWS FROM (jsonb_array_elements_text(p_put->'numbers'), jsonb_array_elements_text(p_put->'bodies')) c(n, b)
  ON CONFLICT DO NOTHING;
  IF p_put ? 'summary' THEN
    INSERT INTO @journal VALUES (p_seq, 0, 0, p_now, p_put->>'summary')
    ON CONFLICT (seq, fence, number) DO UPDATE SET at = excluded.at, body = excluded.body;
  END IF;
  IF p_put ? 'dropsTo' THEN
    DELETE FROM @journal
    WHERE seq = p_seq AND fence > 0
      AND (fence, number) <= ((p_put->'dropsTo'->>0)::int8, (p_put->'dropsTo'->>1)::int8);
  END IF;
END $$;
