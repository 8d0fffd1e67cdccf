-- Writes the result j of a rule in place of the row p_from: the row into the table of its state, or nothing if it is
-- not kept; its input and tags if they have changed; the counts of its route. Answers its event.
CREATE FUNCTION @write_v1(p_from @waiting, j @waiting, p_kind int4, p_kept bool) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF p_from.lane_key IS NOT NULL OR j.lane_key IS NOT NULL THEN
    PERFORM @move_lane_v1(p_from, j, p_kept);
  END IF;
  IF p_from.state = 3 THEN DELETE FROM @leased WHERE id = j.id;
  ELSIF p_from.state < 5 THEN DELETE FROM @waiting WHERE id = j.id;
  ELSE DELETE FROM @history WHERE id = j.id AND ended_at = p_from.ended_at; END IF;
  IF NOT p_kept THEN
    PERFORM @delete_attached_v1(j.seq, p_from.tags, j.durable);
    INSERT INTO @state_count VALUES (p_from.route, p_from.state, -1);
    RETURN @event_v1(p_kind, j);
  END IF;
  IF j.input IS DISTINCT FROM p_from.input THEN
    IF octet_length(j.input) <= 1024 THEN
      DELETE FROM @payload WHERE seq = j.seq;
    ELSE
      INSERT INTO @payload VALUES (j.seq, j.input) ON CONFLICT (seq) DO UPDATE SET input = excluded.input;
      j.input := NULL;
    END IF;
  END IF;
  IF j.tags IS DISTINCT FROM p_from.tags THEN
    PERFORM @drop_tags_v1(j.seq, p_from.tags);
    PERFORM @add_tags_v1(j);
  END IF;
  IF j.state = 3 THEN
    INSERT INTO @leased (
      seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
      cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
      settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
      result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
      change_token, waits, attempts, progress, owner, reason, result)
    SELECT (j).*;
  ELSIF j.state < 5 THEN
    INSERT INTO @waiting (
      seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
      cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
      settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
      result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
      change_token, waits, attempts, progress, owner, reason, result)
    SELECT (j).*;
  ELSE
    INSERT INTO @history (
      seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
      cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
      settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
      result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
      change_token, waits, attempts, progress, owner, reason, result)
    SELECT (j).*;
  END IF;
  IF p_from.state <> j.state OR p_from.route <> j.route THEN
    INSERT INTO @state_count VALUES (p_from.route, p_from.state, -1), (j.route, j.state, 1);
  END IF;
  RETURN @event_v1(p_kind, j);
END $$;
