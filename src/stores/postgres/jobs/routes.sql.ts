/**
 * Routes, each under the number that follows from its content (model/routing/route.ts). A submit adds the row if it
 * sees none. If two submits add the same row at once, readers take distinct rows, and a fold leaves one. So no call
 * waits or fails because of the first job of a name. gate_use has the gates of each route. lane_scope has for each
 * queue the limits whose keys its jobs take.
 */
import { sql } from "../../../store/sql.ts";
import { fieldEnd, texts } from "../functions/packed-values.ts";
import { usesOf } from "../limits/admit.sql.ts";

/** The parameters by which a call brings the content of its jobs' routes, as RouteList writes them. */
export const declareRouteLists =
  "p_routes int8[], p_queues text, p_names text, p_requires text, p_gates text, p_lanes text, p_scopes text";

export const keepRoutes = (queues = texts("p_queues")): string => sql`
  PERFORM @keep_routes_v1(p_routes, ${queues},
    ${texts("p_names")},
    ${texts("p_requires")}, ${texts("p_gates")},
    ${texts("p_lanes")}, ${texts("p_scopes")});`;

export const routesSql = sql`
-- Runs before anything else of a call is written. Other content under a known number is refused. In a serializable
-- transaction it only adds rows: a look would conflict with every other call that submits the first job of a name.
CREATE FUNCTION @keep_routes_v1(p_numbers int8[], p_queues text[], p_names text[], p_requires text[],
  p_gates text[], p_lanes text[], p_scopes text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_same bool; v_looks bool := current_setting('transaction_isolation') <> 'serializable';
BEGIN
  FOR v_i IN 1..coalesce(array_length(p_numbers, 1), 0) LOOP
    IF v_looks THEN
      SELECT bool_and(queue = p_queues[v_i] AND name = p_names[v_i] AND requires = p_requires[v_i]
        AND gates = p_gates[v_i]::jsonb AND lanes IS NOT DISTINCT FROM p_lanes[v_i])
      INTO v_same FROM @route WHERE number = p_numbers[v_i];
    END IF;
    IF v_same IS NULL THEN
      INSERT INTO @route VALUES (p_numbers[v_i], p_queues[v_i], p_names[v_i], p_requires[v_i],
        p_gates[v_i]::jsonb, p_lanes[v_i]);
      INSERT INTO @gate_use
      ${usesOf("p_numbers[v_i]", "p_queues[v_i]", "p_gates[v_i]::jsonb")};
    ELSIF NOT v_same THEN
      RAISE EXCEPTION 'millrace: another queue and name have the route number %', p_numbers[v_i]
        USING ERRCODE = 'MR003';
    END IF;
    IF p_scopes[v_i] IS NOT NULL THEN
      INSERT INTO @lane_scope
      SELECT p_queues[v_i], s FROM unnest(string_to_array(p_scopes[v_i], ${fieldEnd})) s
      WHERE CASE WHEN v_looks THEN NOT EXISTS (
        SELECT 1 FROM @lane_scope o WHERE o.queue = p_queues[v_i] AND o.scope = s) ELSE true END;
    END IF;
  END LOOP;
END $$;

-- Routes in order of their numbers. p_numbers: null for all.
CREATE FUNCTION @read_routes_v1(p_numbers int8[])
  RETURNS TABLE (number int8, queue text, name text, requires text, gates jsonb, lanes text)
  LANGUAGE sql STABLE AS $$
  SELECT DISTINCT r.number, r.queue, r.name, r.requires, r.gates, r.lanes FROM @route r
  WHERE p_numbers IS NULL OR r.number = ANY (p_numbers) ORDER BY r.number
$$;
`;
