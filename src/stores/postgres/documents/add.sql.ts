/**
 * Rule R9: adds to a counter. The row of the counter is locked before it is read, so adds at the same time wait for
 * each other and none is lost or refused.
 */
import { counterPattern } from "../../../store/rules/add.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { sql } from "../../../store/sql.ts";

export const addSql = sql`
-- p_put: {kind, id, add: {by, ceiling?, marks?, leaves?}, expiresIn}; by: null if it is no number; leaves: a put of
-- put_doc_v1. number: the sum, or the present number of a refusal as above. defers: whether a mark was passed, so that
-- leaves was put.
CREATE FUNCTION @add_v1(p_now int8, p_put jsonb, OUT kind text, OUT version int8, OUT number int8, OUT defers bool)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_kind text := p_put->>'kind'; v_id text := p_put->>'id'; v_add jsonb := p_put->'add';
  v_by int8 := (v_add->>'by')::int8; v_old record; v_before int8; v_sum int8;
BEGIN
  defers := false;
  LOOP
    SELECT d.version, d.expires_at, d.body INTO v_old FROM @doc d WHERE d.kind = v_kind AND d.id = v_id FOR UPDATE;
    v_before := CASE WHEN v_old.version IS NULL OR v_old.expires_at <= p_now THEN 0
      WHEN v_old.body ~ '${counterPattern}' THEN v_old.body::int8 END;
    v_sum := v_before + v_by;
    IF v_sum IS NULL OR abs(v_before) > ${Number.MAX_SAFE_INTEGER} THEN kind := 'uncountable'; RETURN; END IF;
    IF v_by > 0 AND v_sum > (v_add->>'ceiling')::numeric THEN
      kind := 'above';
      number := v_before;
      RETURN;
    END IF;
    IF abs(v_sum) > ${Number.MAX_SAFE_INTEGER} THEN kind := 'uncountable'; RETURN; END IF;
    -- A counter that is not there is not locked: if another call has made it meanwhile, the sum is another one.
    SELECT p.kind, p.version INTO kind, version FROM @put_doc_v1(p_now, jsonb_build_object('kind', v_kind, 'id', v_id,
      'body', v_sum::text, 'guard', CASE WHEN v_old.version IS NULL THEN 0 END, 'expiresIn', p_put->'expiresIn')) p;
    EXIT WHEN kind = 'ok';
  END LOOP;
  number := v_sum;
  IF v_add ? 'leaves' AND EXISTS (SELECT 1 FROM jsonb_array_elements_text(v_add->'marks') m
      WHERE v_before < m::numeric AND m::numeric <= v_sum) THEN
    defers := true;
    PERFORM @put_doc_v1(p_now, v_add->'leaves');
  END IF;
END $$;

-- Several counters of one call are locked in one order, so that two calls cannot wait for each other. The locks are
-- advisory, because the rows may not be there yet.
CREATE FUNCTION @lock_counters_v1(p_puts jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(DISTINCT hashtextextended('@doc' || (p->>'kind') || ${fieldEnd} || (p->>'id'), 0)) INTO v_locks
  FROM jsonb_array_elements(p_puts) p WHERE p ? 'add';
  IF array_length(v_locks, 1) > 1 THEN
    PERFORM pg_advisory_xact_lock(l) FROM (SELECT unnest(v_locks) AS l ORDER BY 1) sorted;
  END IF;
END $$;
`;
