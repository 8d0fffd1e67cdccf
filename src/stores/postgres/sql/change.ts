/**
 * change_v1: what operators and duties do to a job under a guard (rule R2). The first case whose guard holds is
 * applied; none holding answers where the job stands. The row stays locked from the look to the write.
 */
export const changeSql = (s: string): string => `
-- p_changes: [{id, cases: [{guard, next, attempts?}]}], in order.
CREATE FUNCTION ${s}.change_v1(p_now int8, p_commit text, p_changes text, OUT now int8, OUT answers jsonb, OUT events text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE v_change jsonb; v_case jsonb; v_at int4; j ${s}.waiting; v_applied record;
BEGIN
  now := ${s}.begin_v1(p_now, p_commit);
  answers := '[]';
  FOR v_change IN SELECT * FROM jsonb_array_elements(p_changes::jsonb) LOOP
    j := ${s}.lock_job_v1(v_change->>'id');
    IF j.id IS NULL THEN answers := answers || '[{"kind": "gone"}]'; CONTINUE; END IF;
    v_at := -1;
    FOR v_i IN 0..jsonb_array_length(v_change->'cases') - 1 LOOP
      IF ${s}.is_held_v1(now, j, v_change->'cases'->v_i->'guard') THEN v_at := v_i; EXIT; END IF;
    END LOOP;
    IF v_at < 0 THEN
      answers := answers || jsonb_build_array(jsonb_build_object('kind', 'changed', 'state', j.state, 'rev', j.rev));
      CONTINUE;
    END IF;
    v_case := v_change->'cases'->v_at;
    SELECT * INTO v_applied FROM ${s}.apply_v1(now, j, v_case->'next', v_case->>'attempts');
    IF v_applied.held_by IS NOT NULL THEN
      answers := answers || jsonb_build_array(jsonb_build_object('kind', 'key-held', 'by', v_applied.held_by));
      CONTINUE;
    END IF;
    events := ${s}.and_v1(events, v_applied.events);
    answers := answers || jsonb_build_array(jsonb_build_object('kind', 'ok', 'applied', v_at, 'from', j.state, 'state', v_applied.state, 'rev', j.rev + 1));
  END LOOP;
  PERFORM ${s}.tell_v1(now, events, false);
END $$;
`;
