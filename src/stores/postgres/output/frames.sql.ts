/**
 * The output of jobs: packed frames, and a summary. They are rows of `journal`, the table of log lines, so that the
 * statements that delete log lines delete them as well: fence 0, number 0 is the summary, and the rows of any other
 * fence are the chunks of the attempt with that fence.
 */
import { byIndex } from "../functions/call.sql.ts";
import { ofAllTables } from "../functions/columns.ts";
import { itemEnd } from "../functions/packed-values.ts";
import { sql } from "../../../store/sql.ts";

export const framesSql = sql`
-- p_put: {numbers, bodies, summary?, restarts?, dropsTo?: [fence, number]}. Guard: the lease is the current one.
CREATE FUNCTION @write_frames_v1(p_now int8, p_seq int8, p_fence int8, p_put jsonb) RETURNS void LANGUAGE plpgsql
  ${byIndex} AS $$
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

-- For each job, in the order of the call, its state, its summary, and up to p_maxes[i] chunks after a place, by fence
-- and number. A fence of null: the newest chunk alone. A job that is gone has no state.
CREATE FUNCTION @read_frames_v1(p_ids text[], p_fences int8[], p_numbers int8[], p_maxes int4[])
  RETURNS TABLE (state int2, summary text, fences int8[], numbers int8[], ats int8[], bodies text)
  LANGUAGE plpgsql STABLE
  ${byIndex} AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT k.state, s.body, c.fences, c.numbers, c.ats, c.bodies
  FROM unnest(p_ids, p_fences, p_numbers, p_maxes) WITH ORDINALITY a(id, fence, number, most, o)
    LEFT JOIN LATERAL (
      ${ofAllTables("j.seq, j.state", "j.id = a.id")} LIMIT 1) k ON true
    LEFT JOIN @journal s ON s.seq = k.seq AND s.fence = 0 AND s.number = 0
    LEFT JOIN LATERAL (
      SELECT array_agg(w.fence ORDER BY w.fence, w.number) AS fences,
        array_agg(w.number ORDER BY w.fence, w.number) AS numbers,
        array_agg(w.at ORDER BY w.fence, w.number) AS ats,
        string_agg(w.body, ${itemEnd} ORDER BY w.fence, w.number) AS bodies
      FROM (
        (SELECT t.* FROM @journal t
        WHERE a.fence IS NOT NULL AND t.seq = k.seq AND (t.seq, t.fence, t.number) > (k.seq, greatest(a.fence, 0), CASE
          WHEN a.fence > 0 THEN a.number ELSE ${String(2 ** 53)} END)
        ORDER BY t.seq, t.fence, t.number LIMIT a.most)
        UNION ALL
        (SELECT t.* FROM @journal t WHERE a.fence IS NULL AND t.seq = k.seq AND t.fence > 0
        ORDER BY t.seq DESC, t.fence DESC, t.number DESC LIMIT 1)) w) c ON k.seq IS NOT NULL
  ORDER BY a.o;
END $$;
`;
