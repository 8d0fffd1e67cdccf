-- These jobs have left `running`. Answers the keys of limits that they held.
CREATE FUNCTION @return_permits_v1(p_seqs int8[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE v_gates text[]; v_limits text[];
BEGIN
  WITH returned AS (DELETE FROM @permit WHERE seq = ANY (p_seqs) RETURNING key, is_own)
  SELECT array_agg(key), array_agg(DISTINCT key) FILTER (WHERE NOT is_own) INTO v_gates, v_limits FROM returned;
  PERFORM @gates_changed_v1(v_gates);
  RETURN v_limits;
END $$;
