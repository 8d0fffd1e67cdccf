/**
 * Documents: versioned texts under a guard. An expired document counts as absent for every guard and every read. Its
 * version still grows, so the former holder of an expired lease cannot pass for its successor. For the same reason a
 * new document begins above the floor, which is the highest version of any deleted document. A delete adds a row to
 * doc_floor if no row there is as high. A fold leaves only the highest row. So no call waits for a shared row. Two
 * concurrent puts of one document wait for each other at its row, or at its insert.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { byIndex } from "../functions/call.sql.ts";
import { sql } from "../../../store/sql.ts";

const readDocs = (where: string): string => sql`
  RETURN QUERY SELECT d.id, d.version, d.body, d.due_at, d.expires_at FROM @doc d
  WHERE d.kind = p_kind AND (d.expires_at IS NULL OR d.expires_at > v_now)
    AND ${where} ORDER BY d.id`;

export const docsSql = sql`
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

-- Deletes documents of given versions as one set, under the guards of put_doc_v1. Finished deferred work is deleted
-- this way, hundreds at a time. p_deletes: [{kind, id, guard}], each document once, and in the same order in every
-- call, because their rows are locked one after the other.
CREATE FUNCTION @delete_docs_v1(p_now int8, p_commit text, p_deletes text)
  RETURNS TABLE (kind text, version int8) LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_deletes jsonb := p_deletes::jsonb;
  v_gone text[]; v_highest int8;
BEGIN
  WITH gone AS (
    DELETE FROM @doc d USING jsonb_to_recordset(v_deletes) p(kind text, id text, guard int8)
    WHERE d.kind = p.kind AND d.id = p.id AND d.version = p.guard AND (d.expires_at IS NULL OR d.expires_at > v_now)
    RETURNING d.kind, d.id, d.version)
  SELECT array_agg(kind || ${fieldEnd} || id), max(version) INTO v_gone, v_highest FROM gone;
  IF v_highest > coalesce((SELECT max(f.version) FROM @doc_floor f), 0) THEN
    INSERT INTO @doc_floor VALUES (v_highest);
  END IF;
  IF cardinality(v_gone) = jsonb_array_length(v_deletes) THEN
    RETURN QUERY SELECT 'ok', 0::int8 FROM generate_series(1, cardinality(v_gone));
  ELSE
    RETURN QUERY SELECT CASE WHEN p.is_gone THEN 'ok' ELSE 'changed' END, coalesce(d.version, 0) FROM (
      SELECT *, kind || ${fieldEnd} || id = ANY (coalesce(v_gone, '{}')) AS is_gone
      FROM ROWS FROM (jsonb_to_recordset(v_deletes) AS (kind text, id text)) WITH ORDINALITY a(kind, id, place)) p
      LEFT JOIN @doc d ON d.kind = p.kind AND d.id = p.id AND NOT p.is_gone
        AND (d.expires_at IS NULL OR d.expires_at > v_now)
    ORDER BY p.place;
  END IF;
END $$;

-- The id of the first document whose version is not that of its check; null if all checks hold. The key share lock
-- keeps put_doc_v1 out until the end of the transaction, but lets other checks pass.
CREATE FUNCTION @failed_check_v1(p_now int8, p_checks jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v_check jsonb;
BEGIN
  FOR v_check IN SELECT * FROM jsonb_array_elements(p_checks) LOOP
    PERFORM 1 FROM @doc d
    WHERE d.kind = v_check->>'kind' AND d.id = v_check->>'id' AND d.version = (v_check->>'version')::int8
      AND (d.expires_at IS NULL OR d.expires_at > p_now) FOR KEY SHARE;
    IF NOT FOUND THEN RETURN v_check->>'id'; END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Puts documents one after the other; a row of kind, version and number for each, as put_doc_v1 answers.
CREATE FUNCTION @put_docs_v1(p_now int8, p_commit text, p_puts text)
  RETURNS TABLE (kind text, version int8, number int8) LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, p_commit); v_puts jsonb := p_puts::jsonb; v_put jsonb; v_events text;
BEGIN
  PERFORM @lock_counters_v1(v_puts);
  FOR v_put IN SELECT * FROM jsonb_array_elements(v_puts) LOOP
    SELECT d.kind, d.version, d.number INTO kind, version, number FROM @put_doc_v1(v_now, v_put) d;
    IF kind = 'ok' THEN v_events := @append_events_v1(v_events, v_put->>'emits'); END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM @emit_v1(v_now, v_events, false);
END $$;

-- Due documents after (p_due, p_kind, p_id). The last row has no document, but the next clock.
CREATE FUNCTION @read_due_docs_v1(p_now int8, p_due int8, p_kind text, p_id text, p_max int4)
  RETURNS TABLE (now int8, next_clock int8, kind text, id text, version int8, body text, due_at int8, expires_at int8)
  LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, NULL);
BEGIN
  RETURN QUERY SELECT v_now, NULL::int8, d.kind, d.id, d.version, d.body, d.due_at, d.expires_at FROM @doc d
  WHERE d.due_at IS NOT NULL AND d.due_at <= v_now AND (d.due_at, d.kind, d.id) > (p_due, p_kind, p_id)
  ORDER BY d.due_at, d.kind, d.id LIMIT p_max;
  RETURN QUERY SELECT v_now, @next_clock_v1(), NULL::text, NULL::text, NULL::int8, NULL::text, NULL::int8, NULL::int8;
END $$;

-- Documents by ids, or those from p_first on that come after p_after. In byte order.
CREATE FUNCTION @read_docs_v1(p_now int8, p_kind text, p_ids text[], p_first text, p_after text, p_max int4)
  RETURNS TABLE (id text, version int8, body text, due_at int8, expires_at int8)
  LANGUAGE plpgsql STABLE
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, NULL);
BEGIN
  IF p_ids IS NOT NULL THEN
    ${readDocs("d.id = ANY (p_ids)")};
  ELSE
    ${readDocs("d.id >= p_first AND (p_after IS NULL OR d.id > p_after)")} LIMIT p_max;
  END IF;
END $$;

-- The heartbeat of a process: puts documents (null for none), then reads others, as lists of lists. Answers also the
-- next clock and the routes that have ready jobs.
CREATE FUNCTION @heartbeat_v1(p_now int8, p_commit text, p_puts text, p_kind text, p_ids text[], p_first text,
  p_after text, p_max int4,
  OUT now int8, OUT clock int8, OUT puts text, OUT docs text, OUT ready int8[]) LANGUAGE plpgsql AS $$
BEGIN
  now := @begin_v1(p_now, p_commit);
  IF p_puts IS NOT NULL THEN
    SELECT json_agg(json_build_array(d.kind, d.version, d.number))::text INTO puts
      FROM @put_docs_v1(p_now, p_commit, p_puts) d;
  END IF;
  SELECT json_agg(json_build_array(d.id, d.version, d.body, d.due_at, d.expires_at))::text INTO docs
    FROM @read_docs_v1(p_now, p_kind, p_ids, p_first, p_after, p_max) d;
  clock := @next_clock_v1();
  SELECT array_agg(r.route ORDER BY r.route) INTO ready
    FROM (SELECT t.route FROM @state_count t WHERE t.state = ${stateCodes.ready} GROUP BY t.route
        HAVING sum(t.count) > 0) r;
END $$;
`;
