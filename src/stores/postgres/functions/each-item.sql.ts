/**
 * Items of a call that may need rows which another transaction holds: the units of a submit, settles, changes and
 * reports. An item that waits for an open transaction must not hold up the others in its call. So a call waits only a
 * moment for a lock. If that fails, nothing of the call has happened, and it is sent again with a savepoint for each
 * item (isLate). Items that are held up are then answered as locked, and the others are done (`patiently` in call.ts).
 */
import { storeLimits } from "../../../store/contract-limits.ts";
import { sql } from "../../../store/sql.ts";
import { byIndex } from "./call.sql.ts";

const { lockWaitMs, lockWaitAgainMs } = storeLimits;

/** At the beginning of a call. Inside the caller's own transaction the caller decides how long to wait. */
export const waitBriefly = sql`PERFORM set_config('lock_timeout', '${lockWaitMs}', true);`;

/** The functions of one item, each with (p_now, p_item) and an answer {kind, events?, left?, lane?, defers?, ...}. */
type ItemFunction = "submit_unit_v1" | "settle_one_v1" | "change_one_v1" | "record_one_v1";

const callOfItem = sql`
  CASE p_what
    WHEN 'submit_unit_v1' THEN @submit_unit_v1(p_now, p_item)
    WHEN 'settle_one_v1' THEN @settle_one_v1(p_now, p_item)
    WHEN 'change_one_v1' THEN @change_one_v1(p_now, p_item)
    WHEN 'record_one_v1' THEN @record_one_v1(p_now, p_item)
  END`;

/** The answer of an item, of which everything happens or nothing. */
export const callItem = (name: ItemFunction, item: string): string => sql`@item_v1('${name}', now, ${item})`;

/** The fields of an item's answer that are for the call, not for the caller. */
export const ofCall = "{events,left,lane,defers}";

/** Collects for lane_hints_v1 what an item's answer says of the lane that its job has left (leaves_v1). */
export const leaveLane = sql`
  v_left_lanes := v_left_lanes || (v_answer->'lane'->>'lane');
  v_limits := v_limits || ARRAY(SELECT jsonb_array_elements_text(v_answer->'lane'->'limits'));`;

export const eachItemSql = sql`
-- Does all of an item or nothing. isLate: it may be held up, or be refused after some of it was written.
CREATE FUNCTION @item_v1(p_what text, p_now int8, p_item jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_answer jsonb;
BEGIN
  IF NOT (p_item->>'isLate')::bool THEN
    RETURN ${callOfItem};
  END IF;
  BEGIN
    v_answer := ${callOfItem};
    IF v_answer->>'kind' IN ('refused', 'doc-changed', 'above-ceiling', 'uncountable', 'id-differs', 'flow-closed',
      'key-held') THEN
      RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001';
    END IF;
  EXCEPTION
    WHEN SQLSTATE 'MR001' THEN NULL;
    WHEN lock_not_available THEN
      PERFORM set_config('lock_timeout', '${lockWaitAgainMs}', true);
      RETURN '{"kind": "locked"}';
  END;
  RETURN v_answer;
END $$;

-- Does items of one kind in order; answers a list. ready: the routes that may have room at a gate now.
CREATE FUNCTION @each_v1(p_now int8, p_commit text, p_what text, p_items text,
  OUT now int8, OUT answers jsonb, OUT events text, OUT ready int8[], OUT defers bool) LANGUAGE plpgsql
  ${byIndex} AS $$
DECLARE
  v_items jsonb := p_items::jsonb; v_item jsonb; v_answer jsonb;
  v_left int8[]; v_left_lanes text[]; v_limits text[];
BEGIN
  now := @begin_v1(p_now, p_commit);
  ${waitBriefly}
  answers := '[]';
  defers := false;
  IF p_what = 'change_one_v1' THEN
    PERFORM @lock_targets_v1(
      ARRAY(SELECT c->>'id' FROM jsonb_array_elements(v_items) c WHERE NOT (c->>'isLate')::bool), v_items);
  END IF;
  FOR v_item IN SELECT * FROM jsonb_array_elements(v_items) LOOP
    v_answer := @item_v1(p_what, now, v_item);
    events := @append_events_v1(events, v_answer->>'events');
    defers := defers OR coalesce((v_answer->>'defers')::bool, false);
    v_left := v_left || (v_answer->>'left')::int8;
    IF v_answer->>'lane' IS NOT NULL THEN
      ${leaveLane}
    END IF;
    answers := answers || jsonb_build_array(v_answer - '${ofCall}'::text[]);
  END LOOP;
  PERFORM @emit_v1(now, events, false);
  IF EXISTS (SELECT 1 FROM @gate) THEN ready := @sharing_v1(v_left); END IF;
  IF v_left_lanes IS NOT NULL THEN ready := ready || @lane_hints_v1(v_left_lanes, v_limits); END IF;
END $$;
`;
