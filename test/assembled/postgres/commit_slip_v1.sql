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
