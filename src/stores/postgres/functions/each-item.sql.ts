/**
 * One item of a call that may meet what others hold: a unit of a submit, a settle, a change, a report. An item that
 * somebody's open transaction holds up must not hold up the strangers in its call. So a call waits only a moment for a
 * lock; where that fails nothing of it has happened, and it is sent again with every item behind a savepoint (isLate):
 * the items that are held up are answered as locked, the others are done (patiently in call.ts).
 */
import { storeLimits } from "../../../store/limits.ts";
import { byIndex } from "./call.sql.ts";

const { lockWaitMs, lockWaitAgainMs } = storeLimits;

/** At the beginning of a call. Inside the caller's own transaction it is the caller's to say how long. */
export const waitBriefly = `PERFORM set_config('lock_timeout', '${lockWaitMs}', true);`;

const kinds = ["submit_unit_v1", "settle_one_v1", "change_one_v1", "record_one_v1"] as const;
const oneOf = `CASE p_what ${kinds.map((name) => `WHEN '${name}' THEN @${name}(p_now, p_item)`).join(" ")} END`;

/** What the answer of an item says for the call, not for who asked. */
export const beside = "{events,left,lane,owes}";

/** Answers {kind, events?, ...}. */
export const whole = (name: (typeof kinds)[number], item: string): string =>
  `@whole_v1('${name}', now, ${item})`;

/** What an item's answer says of the lane that its job has left (leaves_v1), for lane_hints_v1. */
export const leaveLane = `
      v_left_lanes := v_left_lanes || (v_answer->'lane'->>'lane');
      v_limits := v_limits || ARRAY(SELECT jsonb_array_elements_text(v_answer->'lane'->'limits'));`;

export const wholeSql = `
-- All of an item or nothing: isLate where it may be held up, or refused after something of it was written.
CREATE FUNCTION @whole_v1(p_what text, p_now int8, p_item jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_answer jsonb;
BEGIN
  IF NOT (p_item->>'isLate')::bool THEN RETURN ${oneOf}; END IF;
  BEGIN
    v_answer := ${oneOf};
    IF v_answer->>'kind' IN ('refused', 'doc-changed', 'id-differs', 'flow-closed', 'key-held') THEN RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001'; END IF;
  EXCEPTION
    WHEN SQLSTATE 'MR001' THEN NULL;
    WHEN lock_not_available THEN
      PERFORM set_config('lock_timeout', '${lockWaitAgainMs}', true);
      RETURN '{"kind": "locked"}';
  END;
  RETURN v_answer;
END $$;

-- Items of one kind in order; answers a list, and the routes for which there may be room at a gate.
CREATE FUNCTION @each_v1(p_now int8, p_commit text, p_what text, p_items text, OUT now int8, OUT answers jsonb, OUT events text, OUT ready int8[], OUT owes bool) LANGUAGE plpgsql ${byIndex} AS $$
DECLARE v_items jsonb := p_items::jsonb; v_item jsonb; v_answer jsonb; v_left int8[]; v_left_lanes text[]; v_limits text[];
BEGIN
  now := @begin_v1(p_now, p_commit);
  ${waitBriefly}
  answers := '[]';
  owes := false;
  IF p_what = 'change_one_v1' THEN
    PERFORM @lock_targets_v1(ARRAY(SELECT c->>'id' FROM jsonb_array_elements(v_items) c WHERE NOT (c->>'isLate')::bool), v_items);
  END IF;
  FOR v_item IN SELECT * FROM jsonb_array_elements(v_items) LOOP
    v_answer := @whole_v1(p_what, now, v_item);
    events := @and_v1(events, v_answer->>'events');
    owes := owes OR coalesce((v_answer->>'owes')::bool, false);
    v_left := v_left || (v_answer->>'left')::int8;
    IF v_answer->>'lane' IS NOT NULL THEN${leaveLane}
    END IF;
    answers := answers || jsonb_build_array(v_answer - '${beside}'::text[]);
  END LOOP;
  PERFORM @tell_v1(now, events, false);
  IF EXISTS (SELECT 1 FROM @gate) THEN ready := @sharing_v1(v_left); END IF;
  IF v_left_lanes IS NOT NULL THEN ready := ready || @lane_hints_v1(v_left_lanes, v_limits); END IF;
END $$;
`;
