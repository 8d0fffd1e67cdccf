-- Refuses the commit of a slip whose lease is not the current one any more.
CREATE FUNCTION @check_slip_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM @leased WHERE id = NEW.id AND seq = NEW.seq AND fence = NEW.fence FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'millrace: this transaction was rolled back, because the run % is not held by its worker any more',
      NEW.id USING ERRCODE = 'MR005', HINT = 'The run goes on elsewhere, and does this step there.';
  END IF;
  RETURN NULL;
END $$;
