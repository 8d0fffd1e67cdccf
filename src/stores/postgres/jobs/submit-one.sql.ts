/**
 * submit_one_v1: the most frequent submit of a quiet process, one plain job with a small input and no tags. It has a
 * path of its own, because a user waits for it. submit_v1 does the same for any number of jobs, but spends most of a
 * single job's time on setting up its lists. Without this path a job starts a tenth later in another process
 * (docs/decisions/0017-postgres-paths.md); paths.test.ts compares its rows with those of the other paths.
 *
 * p_by: the sender of a hint to the other processes. A hint inside the transaction reaches them a round trip earlier,
 * but holds the server's lock of notifications through the commit. So only one call at a time may send one; if another
 * call is sending, the hint is sent after the answer, as all others are.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { queueGateKey } from "../../../model/limits/gate.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf } from "../../../store/job-fields.ts";
import { columnList, initialSql, newRowSql } from "../functions/columns.ts";
import type { Expressions } from "../functions/columns.ts";
import { declarePlace } from "./place-parameters.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { setCommit, timeNow } from "../functions/call.sql.ts";
import { waitingTimer } from "../runs/advance.sql.ts";
import { isIntakeClosed } from "../limits/admit.sql.ts";
import { stateSql } from "./place.sql.ts";
import { foldEvery } from "../feed/emit.sql.ts";
import { listedFields } from "./submit.sql.ts";
import { inLines, sql } from "../../../store/sql.ts";

const { scheduled, ready } = stateCodes;

export const givenFields = listedFields.filter((name) => name !== "tags");

const placed: Expressions = {
  ...Object.fromEntries(givenFields.map((name) => [name, `p_${columnOf(name)}`])),
  seq: "nextval('@job_seq')",
  createdAt: "v_now",
  route: "p_route",
  state: "v_state",
  dueAt: "v_due_at",
  deadlineAt: "v_deadline_at",
  ttlAt: "v_ttl_at",
  rank: "p_rank_base + p_rank_slope * v_due_at",
  timerAt: "v_timer_at",
};

/** The channel of hints. It is named after the schema, whose name has quotes here. */
const channel = sql`split_part('@hint', '"', 2) || '_hint'`;

export const submitOneSql = sql`
-- One plain job with a small input and without tags. Answers: time, state, the clock that was set (0: none), whether
-- the other processes were notified. Empty if its intake is closed.
CREATE FUNCTION @submit_one_v1(p_now int8, p_commit text, p_by text, p_route int8, p_queue text, p_name text,
  p_requires text, p_gates jsonb,
  ${inLines(givenFields.map((name) => `p_${columnOf(name)} text`))},
  ${inLines(declarePlace("int8"))}) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := ${timeNow};
  v_due_at int8 := coalesce(p_due_at, v_now + p_due_in);
  v_deadline_at int8 := coalesce(p_deadline_at, v_now + p_deadline_in);
  v_ttl_at int8 := v_due_at + p_ttl;
  v_state int2 := ${stateSql("v_due_at", "v_now")};
  v_timer_at int8 := ${waitingTimer("v_")};
  v_feed int8; v_notified bool := false;
BEGIN
  ${setCommit}
  IF ${isIntakeClosed(`'${queueGateKey("")}' || p_queue`)} THEN RETURN ''; END IF;
  PERFORM 1 FROM @route
  WHERE number = p_route AND queue = p_queue AND name = p_name AND requires = p_requires AND gates = p_gates;
  IF NOT FOUND THEN
    PERFORM @keep_routes_v1(ARRAY[p_route], ARRAY[p_queue], ARRAY[p_name], ARRAY[p_requires],
      ARRAY[p_gates::text], NULL, NULL);
  END IF;
  INSERT INTO @waiting (
    ${columnList})
  VALUES (
    ${newRowSql(placed)});
  INSERT INTO @state_count VALUES (p_route, v_state, 1);
  INSERT INTO @feed (at, body) VALUES (v_now, concat_ws(${fieldEnd}, ${eventCodes.submitted}, ${initialSql("rev")},
    p_route, v_state, ${initialSql("attempt")},
    CASE WHEN v_state = ${scheduled} THEN 'n' || v_due_at ELSE '' END, p_id)) RETURNING id INTO v_feed;
  IF v_feed % ${foldEvery} = 0 THEN PERFORM @fold_v1(); END IF;
  IF p_by IS NOT NULL AND pg_try_advisory_xact_lock(hashtextextended('@hint', 0)) THEN
    PERFORM pg_notify(${channel}, '{"by":"' || p_by || '"'
      || CASE WHEN v_state = ${ready} THEN ',"r":[' || p_route || ']' ELSE '' END
      || coalesce(',"d":' || (v_timer_at - v_now), '') || '}');
    v_notified := true;
  END IF;
  RETURN concat_ws(' ', v_now, v_state, coalesce(v_timer_at, 0), v_notified::int4);
END $$;
`;
