-- For each job, in the order of the call, its state, its summary, and up to p_maxes[i] chunks after a place, by fence
-- and number. A fence of null: the newest chunk alone. A job that is gone has no state.
CREATE FUNCTION @read_frames_v1(p_ids text[], p_fences int8[], p_numbers int8[], p_maxes int4[])
  RETURNS TABLE (state int2, summary text, fences int8[], numbers int8[], ats int8[], bodies text)
  LANGUAGE plpgsql STABLE
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT k.state, s.body, c.fences, c.numbers, c.ats, c.bodies
  FROM unnest(p_ids, p_fences, p_numbers, p_maxes) WITH ORDINALITY a(id, fence, number, most, o)
    LEFT JOIN LATERAL (
      SELECT j.seq, j.state FROM @waiting j WHERE j.id = a.id
      UNION ALL SELECT j.seq, j.state FROM @leased j WHERE j.id = a.id
      UNION ALL SELECT j.seq, j.state FROM @history j WHERE j.id = a.id LIMIT 1) k ON true
    LEFT JOIN @journal s ON s.seq = k.seq AND s.fence = 0 AND s.number = 0
    LEFT JOIN LATERAL (
      SELECT array_agg(w.fence ORDER BY w.fence, w.number) AS fences,
        array_agg(w.number ORDER BY w.fence, w.number) AS numbers,
        array_agg(w.at ORDER BY w.fence, w.number) AS ats,
        string_agg(w.body, E'\x1e' ORDER BY w.fence, w.number) AS bodies
      FROM (
        (SELECT t.* FROM @journal t
        WHERE a.fence IS NOT NULL AND t.seq = k.seq AND (t.seq, t.fence, t.number) > (k.seq, greatest(a.fence, 0), CASE
          WHEN a.fence > 0 THEN a.number ELSE 9007199254740992 END)
        ORDER BY t.seq, t.fence, t.number LIMIT a.most)
        UNION ALL
        (SELECT t.* FROM @journal t WHERE a.fence IS NULL AND t.seq = k.seq AND t.fence > 0
        ORDER BY t.seq DESC, t.fence DESC, t.number DESC LIMIT 1)) w) c ON k.seq IS NOT NULL
  ORDER BY a.o;
END $$;
