-- guard: the version that must be there, 0 for absent, null for any. emits: a packed bundle of events for the feed,
-- which the caller emits. version: the new one (0: deleted), or the current one of a refusal.
-- number and defers: of an add alone, as add_v1 answers.
CREATE FUNCTION @put_doc_v1(p_now int8, p_put jsonb, OUT kind text, OUT version int8, OUT number int8, OUT defers bool)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_kind text := p_put->>'kind'; v_id text := p_put->>'id'; v_guard int8 := (p_put->>'guard')::int8;
  v_old record; v_new int8;
  v_due int8 := @due_v1(p_now, p_put->'due');
BEGIN
  defers := false;
  IF p_put ? 'add' THEN
    SELECT a.kind, a.version, a.number, a.defers INTO kind, version, number, defers FROM @add_v1(p_now, p_put) a;
    RETURN;
  END IF;
  LOOP
    SELECT d.version, d.expires_at INTO v_old FROM @doc d WHERE d.kind = v_kind AND d.id = v_id FOR UPDATE;
    version := CASE WHEN v_old.version IS NULL OR v_old.expires_at <= p_now THEN 0 ELSE v_old.version END;
    IF v_guard <> version THEN kind := 'changed'; RETURN; END IF;
    kind := 'ok';
    v_new := coalesce(v_old.version, (SELECT max(f.version) FROM @doc_floor f), 0) + 1;
    IF p_put->>'body' IS NULL THEN
      DELETE FROM @doc d WHERE d.kind = v_kind AND d.id = v_id;
      INSERT INTO @doc_floor SELECT v_old.version
        WHERE v_old.version > coalesce((SELECT max(f.version) FROM @doc_floor f), 0);
      version := 0;
      RETURN;
    END IF;
    IF v_old.version IS NOT NULL THEN
      UPDATE @doc d SET version = v_new, body = p_put->>'body', due_at = v_due,
        expires_at = p_now + (p_put->>'expiresIn')::int8 WHERE d.kind = v_kind AND d.id = v_id;
      version := v_new;
      RETURN;
    END IF;
    INSERT INTO @doc VALUES (v_kind, v_id, v_new, p_put->>'body', v_due, p_now + (p_put->>'expiresIn')::int8)
      ON CONFLICT DO NOTHING;
    IF FOUND THEN
      -- From here on no other call can add or delete this document. So every version that it had before is below the
      -- floor.
      UPDATE @doc d SET version = f.floor + 1 FROM (SELECT max(f.version) AS floor FROM @doc_floor f) f
        WHERE d.kind = v_kind AND d.id = v_id AND d.version <= f.floor RETURNING d.version INTO version;
      version := coalesce(version, v_new);
      RETURN;
    END IF;
  END LOOP;
END $$;
