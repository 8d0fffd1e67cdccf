-- Writes what a job waits for, and nothing else of it. The caller has locked its row.
CREATE FUNCTION @set_waits_v1(j @waiting, p_waits text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.state = 3 THEN UPDATE @leased SET waits = p_waits WHERE id = j.id;
  ELSIF j.state < 5 THEN UPDATE @waiting SET waits = p_waits WHERE id = j.id;
  ELSE UPDATE @history SET waits = p_waits WHERE id = j.id AND ended_at = j.ended_at; END IF;
END $$;
