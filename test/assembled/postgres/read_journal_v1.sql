-- A page of the journal of each job, in the order of the call: up to p_maxes[i] entries after the number p_afters[i],
-- whose numbers have no gaps. p_fences: null to read without a lease. p_bytes: a page ends when its bodies reach this.
CREATE FUNCTION @read_journal_v1(p_now int8, p_ids text[], p_seqs int8[], p_fences int8[], p_afters int4[],
  p_maxes int4[], p_bytes int8) RETURNS TABLE (now int8, kind text, last int4, durable int4, ats int8[], keys text,
    bodies text, slip_keys text, slip_bodies text)
  LANGUAGE plpgsql STABLE
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8);
BEGIN
  RETURN QUERY SELECT v_now, k.kind, CASE k.kind WHEN 'ok' THEN
      coalesce((
        SELECT CASE WHEN e.seq = k.seq THEN greatest(e.number, 0) END FROM @entry e
        WHERE (e.seq, e.number) <= (k.seq, 2147483647) ORDER BY e.seq DESC, e.number DESC LIMIT 1), 0) END,
    k.durable, e.ats, e.keys, e.bodies, s.keys, s.bodies
  FROM unnest(p_ids, p_seqs, p_fences, p_afters, p_maxes) WITH ORDINALITY a(id, seq, fence, after, most, o)
    CROSS JOIN LATERAL (
      SELECT j.seq, j.durable, CASE WHEN j.seq IS NULL THEN 'gone'
        WHEN a.fence IS NOT NULL AND NOT (j.state = 3 AND j.seq = a.seq AND j.fence = a.fence)
        THEN 'stale' ELSE 'ok' END AS kind
      FROM (SELECT 1) one LEFT JOIN LATERAL (
        SELECT j.seq, j.durable, j.state, j.fence FROM @waiting j WHERE j.id = a.id
        UNION ALL SELECT j.seq, j.durable, j.state, j.fence FROM @leased j WHERE j.id = a.id
        UNION ALL SELECT j.seq, j.durable, j.state, j.fence FROM @history j WHERE j.id = a.id LIMIT 1) j ON true) k
    LEFT JOIN LATERAL (
      SELECT array_agg(w.at ORDER BY w.number) AS ats, string_agg(w.key, E'\x1e' ORDER BY w.number) AS keys,
        string_agg(w.body, E'\x1e' ORDER BY w.number) AS bodies
      FROM (
        SELECT p.*, sum(octet_length(p.body)) OVER (
          ORDER BY p.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (
          SELECT e.at, e.number, e.key, e.body FROM @entry e
          WHERE e.seq = k.seq AND (e.seq, e.number) > (k.seq, greatest(a.after, 0))
          ORDER BY e.seq, e.number LIMIT a.most) p) w
      WHERE coalesce(w.before, 0) < p_bytes) e ON k.kind = 'ok'
    LEFT JOIN LATERAL (
      SELECT string_agg(t.key, E'\x1e' ORDER BY t.key) AS keys,
        string_agg(t.body, E'\x1e' ORDER BY t.key) AS bodies
      FROM @slip t WHERE t.seq = k.seq) s ON k.kind = 'ok'
  ORDER BY a.o;
END $$;
