-- Finds a job in any table and locks its row. Answers null if there is no job, or if it cannot be read; then it is
-- moved to unreadable. If the row moves meanwhile, it is looked for again.
CREATE FUNCTION @lock_job_v1(p_now int8, p_id text) RETURNS @waiting LANGUAGE plpgsql AS $$
DECLARE j @waiting;
BEGIN
  FOR i IN 1..50 LOOP
    SELECT * INTO j FROM @waiting WHERE id = p_id FOR UPDATE;
    IF FOUND AND
      (j.state NOT IN (0, 1, 2, 4)
        OR CASE
          WHEN j.tags IS NULL OR j.tags
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.tags) IS NULL END
        OR CASE
          WHEN j.lane_gates IS NULL OR j.lane_gates
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.lane_gates) IS NULL END
        OR CASE
          WHEN j.edges IS NULL OR j.edges
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.edges) IS NULL END
        OR coalesce(j.waits !~ '^-?[0-9]{1,15}(,-?[0-9]{1,15}){3}((,-?[0-9]{1,15}){6})?$', false)) THEN
      PERFORM @keep_unreadable_v1(p_now, NULL, ARRAY[p_id]);
      RETURN NULL;
    END IF;
    IF FOUND THEN RETURN j; END IF;
    SELECT * INTO j FROM @leased WHERE id = p_id FOR UPDATE;
    IF FOUND AND
      (j.state NOT IN (3)
        OR CASE
          WHEN j.tags IS NULL OR j.tags
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.tags) IS NULL END
        OR CASE
          WHEN j.lane_gates IS NULL OR j.lane_gates
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.lane_gates) IS NULL END
        OR CASE
          WHEN j.edges IS NULL OR j.edges
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.edges) IS NULL END
        OR coalesce(j.waits !~ '^-?[0-9]{1,15}(,-?[0-9]{1,15}){3}((,-?[0-9]{1,15}){6})?$', false)) THEN
      PERFORM @keep_unreadable_v1(p_now, NULL, ARRAY[p_id]);
      RETURN NULL;
    END IF;
    IF FOUND THEN RETURN j; END IF;
    SELECT * INTO j FROM @history WHERE id = p_id FOR UPDATE;
    IF FOUND AND
      (j.state NOT IN (5, 6, 7, 8, 9)
        OR CASE
          WHEN j.tags IS NULL OR j.tags
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.tags) IS NULL END
        OR CASE
          WHEN j.lane_gates IS NULL OR j.lane_gates
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.lane_gates) IS NULL END
        OR CASE
          WHEN j.edges IS NULL OR j.edges
            ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
          THEN false ELSE @tags_of_v1(j.edges) IS NULL END
        OR coalesce(j.waits !~ '^-?[0-9]{1,15}(,-?[0-9]{1,15}){3}((,-?[0-9]{1,15}){6})?$', false)) THEN
      PERFORM @keep_unreadable_v1(p_now, NULL, ARRAY[p_id]);
      RETURN NULL;
    END IF;
    IF FOUND THEN RETURN j; END IF;
    PERFORM 1 FROM (
      SELECT 1 FROM @waiting j WHERE id = p_id
      UNION ALL SELECT 1 FROM @leased j WHERE id = p_id
      UNION ALL SELECT 1 FROM @history j WHERE id = p_id) k;
    IF NOT FOUND THEN RETURN NULL; END IF;
  END LOOP;
  RAISE EXCEPTION 'millrace: the job % moves too fast', p_id USING ERRCODE = '40001';
END $$;
