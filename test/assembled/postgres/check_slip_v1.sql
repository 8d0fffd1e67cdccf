-- Refuses the commit of a slip whose lease is not the current one any more.
CREATE FUNCTION @check_slip_v1() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_durable int4;
BEGIN
  SELECT durable INTO v_durable FROM @leased
  WHERE id = NEW.id AND seq = NEW.seq AND fence = NEW.fence FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'millrace: this transaction was rolled back, because the run % is not held by its worker any more',
      NEW.id USING ERRCODE = 'MR005', HINT = 'The run goes on elsewhere, and does this step there.';
  END IF;
  IF v_durable & 1 = 0 THEN
    UPDATE @leased SET durable = durable | 1 WHERE id = NEW.id;
  END IF;
  RETURN NULL;
END $$;
