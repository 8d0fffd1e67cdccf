/**
 * Which candidates of a claim of lanes pass their gates (claim-lanes.sql.ts), and at which gate a refused lane waits
 * from now on. If a gate may refuse one of them, they are tried one after the other.
 */
import { held } from "../limits/admit.sql.ts";
import { keyUses, manyKeyStates, scopeOfKey, timeLeft } from "./lane.sql.ts";
import { sql } from "../../../store/sql.ts";

/**
 * A row of u for each gate that a candidate has to pass, in their order; a row of g for each gate. v_all_pass: each
 * gate lets all candidates that need it pass together, and none has tokens to count. v_unknown: the scope of one gate
 * is not locked, because its first job came after the scopes were read. That gate is shut, and no lane waits at it.
 */
const isLocked = (key: string): string => sql`${scopeOfKey(key)} = ANY (p_scopes)`;
export const gatesOfJobs = sql`
  WITH uses AS MATERIALIZED (
    SELECT c.at, u.key, u.weight, u.cap, true AS is_keyed
    FROM unnest(c_gates[:v_certain]) WITH ORDINALITY c(gates, at) CROSS JOIN LATERAL
      ${keyUses("c.gates")}
    WHERE c.gates IS NOT NULL
    UNION ALL SELECT c.at, u.key, u.weight, NULL, false
    FROM unnest(c_route[:v_certain]) WITH ORDINALITY c(route, at) JOIN (
      SELECT DISTINCT route, key, weight FROM @gate_use
      WHERE route = ANY (p_routes) AND key = ANY (p_gates)) u ON u.route = c.route),
  asked AS MATERIALIZED (
    SELECT key, is_keyed, sum(weight::float8) AS weight, min(cap) AS least_cap, count(cap) < count(*) AS by_gate
    FROM uses GROUP BY key, is_keyed),
  keys AS MATERIALIZED (SELECT key FROM asked WHERE is_keyed),
  states AS MATERIALIZED (
    SELECT row_number() OVER () AS number, g.*,
      is_keyed AND NOT ${isLocked("g.key")} AS is_unknown,
      ${timeLeft("p_now")} AS by_time
    FROM (
      SELECT s.*, true AS is_keyed FROM (
        ${manyKeyStates}) s
      UNION ALL SELECT g.key,
        ${held}, g.cap, g.step_us, g.burst_us, g.tat_us,
        g.closed_until, false
      FROM @gate g WHERE g.key = ANY (p_gates)) g)
  SELECT * INTO v_timed, v_unknown, g_key, g_keyed, g_held, g_cap, g_time, g_step, g_burst, g_tat, g_closed, g_shut,
    u_at, u_gate, u_weight, u_cap, v_all_pass
  FROM (
    SELECT bool_or(step_us IS NOT NULL OR closed_until IS NOT NULL), bool_or(is_unknown), array_agg(key),
      array_agg(is_keyed AND NOT is_unknown), array_agg(held), array_agg(cap), array_agg(by_time), array_agg(step_us),
      array_agg(burst_us), array_agg(tat_us), array_agg(closed_until), array_agg(key = ANY (p_shut) OR is_unknown)
    FROM (SELECT * FROM states ORDER BY number) s) s, (
    SELECT array_agg(at), array_agg(number), array_agg(weight), array_agg(use_cap) FROM (
      SELECT u.at, s.number, u.weight, u.cap AS use_cap
      FROM uses u JOIN states s ON s.key = u.key AND s.is_keyed = u.is_keyed ORDER BY u.at) u) u, (
    SELECT bool_and(a.key <> ALL (p_shut) AND NOT s.is_unknown AND coalesce(a.weight <= least(
        s.by_time, least(a.least_cap, CASE WHEN a.by_gate THEN s.cap END) - s.held), true))
      AND NOT bool_or(s.step_us IS NOT NULL)
    FROM asked a JOIN states s ON s.key = a.key AND s.is_keyed = a.is_keyed) p;`;

/** Whether a use finds fewer permits of its gate than this. */
const hasLess = (use: string, than: string): string => sql`
  least(g_time[u_gate[${use}]],
    coalesce(u_cap[${use}], g_cap[u_gate[${use}]]) - g_held[u_gate[${use}]]) < ${than}`;

/**
 * Tries the candidates one by one, as store/rules/gates/admit.ts does. If all of them are known to pass, it takes them
 * at once.
 */
export const admit = sql`
  v_taken := 0; v_got := 0; v_use := 1; v_any_shut := false; v_any_waits := false;
  v_takes := array_fill(false, ARRAY[v_certain]); v_chosen := '{}'; v_over := array_fill(false, ARRAY[v_count]);
  v_last := array_fill(NULL::int4, ARRAY[v_count]);
  v_seen := v_last; v_from := v_last; v_to := v_last; v_wait_uses := v_last;
  g_passed := array_fill(0::int8, ARRAY[coalesce(array_length(g_key, 1), 0)]); g_weight := g_passed;
  IF (g_key IS NULL OR v_all_pass) AND v_all_go AND v_bytes < p_bytes THEN
    v_taken := least(v_certain, p_max);
    v_got := v_bytes;
    FOR v_at IN 1..v_taken LOOP
      v_last[c_lane[v_at]] := v_at;
    END LOOP;
    v_seen := v_last;
    v_chosen := ARRAY(SELECT generate_series(1, v_taken));
    places := c_place[1:v_taken];
    seqs := c_seq[1:v_taken];
    IF g_key IS NOT NULL THEN
      gates := c_gates[1:v_taken];
      v_takes := array_fill(true, ARRAY[v_taken]);
    END IF;
  END IF;
  FOR v_at IN v_taken + 1..v_certain LOOP
    EXIT WHEN v_taken >= p_max OR v_got >= p_bytes;
    v_first := v_use;
    WHILE u_at[v_use] = v_at LOOP v_use := v_use + 1; END LOOP;
    v_lane := c_lane[v_at];
    CONTINUE WHEN v_over[v_lane] OR NOT c_go[v_at];
    v_seen[v_lane] := v_at;
    v_from[v_lane] := v_first;
    v_to[v_lane] := v_use - 1;
    v_refused := false;
    FOR v_i IN v_first..v_use - 1 LOOP
      v_refused := v_refused OR g_shut[u_gate[v_i]];
    END LOOP;
    IF NOT v_refused THEN
      FOR v_i IN v_first..v_use - 1 LOOP
        CONTINUE WHEN NOT coalesce(
          ${hasLess("v_i", "u_weight[v_i]")}, false);
        v_refused := true;
        -- If a cap of the job's own refuses it, the gate stays open for other jobs.
        CONTINUE WHEN u_cap[v_i] IS NOT NULL AND NOT coalesce(g_time[u_gate[v_i]] < u_weight[v_i], false);
        v_any_shut := true;
        g_shut[u_gate[v_i]] := true;
        g_weight[u_gate[v_i]] := u_weight[v_i];
      END LOOP;
    END IF;
    IF v_refused THEN
      v_over[v_lane] := true;
      CONTINUE;
    END IF;
    FOR v_i IN v_first..v_use - 1 LOOP
      v_gate := u_gate[v_i];
      g_held[v_gate] := g_held[v_gate] + u_weight[v_i];
      g_time[v_gate] := g_time[v_gate] - u_weight[v_i];
      g_passed[v_gate] := coalesce(g_passed[v_gate], 0) + u_weight[v_i];
    END LOOP;
    v_last[v_lane] := v_at;
    v_taken := v_taken + 1;
    v_chosen[v_taken] := v_at;
    places[v_taken] := c_place[v_at];
    seqs[v_taken] := c_seq[v_at];
    gates[v_taken] := c_gates[v_at];
    v_takes[v_at] := true;
    v_got := v_got + coalesce(c_bytes[v_at], 0);
  END LOOP;`;

/**
 * A lane whose first job was refused waits at the first gate of a key that lets no permit pass. v_wait_uses: for each
 * lane its use of that gate.
 */
export const choosePlaces = sql`
  FOR v_lane IN 1..CASE WHEN true = ANY (v_over) THEN v_count ELSE 0 END LOOP
    CONTINUE WHEN NOT v_over[v_lane];
    FOR v_i IN v_from[v_lane]..v_to[v_lane] LOOP
      CONTINUE WHEN NOT g_keyed[u_gate[v_i]] OR NOT coalesce(
        ${hasLess("v_i", "1")}, false);
      v_wait_uses[v_lane] := v_i;
      v_any_waits := true;
      EXIT;
    END LOOP;
  END LOOP;`;
