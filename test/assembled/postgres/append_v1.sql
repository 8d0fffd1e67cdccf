-- Appends entries in order to the journal of job j. An entry whose key the journal has is passed over. p_foreign:
-- others append it. job: the row with the marks of the entries, not yet written; last: the last number of the journal;
-- has_grown: one of the entries was new.
CREATE FUNCTION @append_v1(p_now int8, j @waiting, p_entries jsonb, p_foreign bool,
  OUT job @waiting, OUT last int4, OUT has_grown bool) LANGUAGE plpgsql AS $$
DECLARE v_entry jsonb; v_key text; v_marks int4;
BEGIN
  last := coalesce((
    SELECT CASE WHEN e.seq = j.seq THEN greatest(e.number, 0) END FROM @entry e
    WHERE (e.seq, e.number) <= (j.seq, 2147483647) ORDER BY e.seq DESC, e.number DESC LIMIT 1), 0);
  has_grown := false;
  FOR v_entry IN SELECT * FROM jsonb_array_elements(p_entries) LOOP
    j.durable := j.durable | 1;
    v_key := v_entry->>'key';
    CONTINUE WHEN coalesce((
      SELECT e.seq = j.seq AND e.key = v_key FROM @entry e
      WHERE (e.seq, e.key) >= (j.seq, v_key) ORDER BY e.seq, e.key LIMIT 1), false);
    last := last + 1;
    has_grown := true;
    INSERT INTO @entry
    VALUES (j.seq, p_now, last, p_foreign, v_key, v_entry->>'body', (v_entry->>'unread')::int8);
    IF v_entry ? 'reads' THEN
      UPDATE @entry e SET unread = NULL
      FROM (SELECT DISTINCT r::int4 AS number FROM jsonb_array_elements_text(v_entry->'reads') r) r
      WHERE e.seq = j.seq AND e.number = r.number AND e.unread IS NOT NULL;
    END IF;
    v_marks := coalesce((v_entry->>'marks')::int4, 0);
    j.durable := j.durable | v_marks;
    -- The undos of the run are not to be stopped by what ended it.
    IF v_marks & 4 <> 0 THEN
      j.deadline_at := NULL;
      j.cancel_asked := 0;
      j.timer_at := @timer_v1(j);
    END IF;
  END LOOP;
  job := j;
END $$;
