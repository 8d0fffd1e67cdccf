/**
 * Slips: results of steps that are committed with the caller's own rows. commit_slip_v1 takes no lock on the job's row,
 * so a caller's transaction that stays open holds up no renewal. The fence is checked at the commit, by a constraint
 * trigger that waits until then. It locks the row of the lease for the moment of the commit, so that no reclaim comes
 * between the check and the commit. It changes nothing: an update would fail under repeatable read if the lease was
 * renewed since the transaction began.
 */
import { sql } from "../../../store/sql.ts";

export const slipSql = sql`
-- Answers {kind: ok | recorded | stale, body?}. A second slip under a key waits for the end of the first one's
-- transaction.
CREATE FUNCTION @commit_slip_v1(p_id text, p_seq int8, p_fence int8, p_key text, p_body text) RETURNS jsonb
  LANGUAGE plpgsql AS $$
DECLARE v_body text;
BEGIN
  LOOP
    SELECT body INTO v_body FROM @slip WHERE seq = p_seq AND key = p_key;
    IF FOUND THEN RETURN jsonb_build_object('kind', 'recorded', 'body', v_body); END IF;
    PERFORM 1 FROM @leased WHERE id = p_id AND seq = p_seq AND fence = p_fence;
    IF NOT FOUND THEN RETURN '{"kind": "stale"}'; END IF;
    INSERT INTO @slip VALUES (p_seq, p_fence, p_id, p_key, p_body) ON CONFLICT (seq, key) DO NOTHING;
    IF FOUND THEN RETURN '{"kind": "ok"}'; END IF;
  END LOOP;
END $$;

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
`;

/** After the functions, because it names one. */
export const triggersSql = sql`
CREATE CONSTRAINT TRIGGER slip_fence AFTER INSERT ON @slip DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION @check_slip_v1();
`;
