/**
 * Rule R8 (store/rules/meet.ts): a submit finds its unique key held. A holder that no worker has ever taken is kept or
 * replaced, as the new job says; its id, digest, seq and time of creation stay. A member of a flow is always kept.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { unstartedStates } from "../../../model/job/unique-key.ts";
import { columnOf } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { sql } from "../../../store/sql.ts";

const identity: readonly JobFieldName[] = ["seq", "id", "createdAt", "digest", "uniqueKey"];
const unstarted = unstartedStates.map((state) => stateCodes[state]).join(", ");

export const isReplaceable = sql`attempt = 0 AND state IN (${unstarted}) AND waits IS NULL`;

/** The time until which a key that is taken now is held; null if the job holds it. */
export const heldUntil = (hold: string): string =>
  sql`CASE WHEN ${hold} > ${uniqueHolds.none} THEN p_now + ${hold} END`;

export const meetSql = sql`
-- The holder is replaceable, and its row is locked. Answers the event.
CREATE FUNCTION @meet_v1(p_now int8, p_holder @waiting, p_job jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE j @waiting;
BEGIN
  j := jsonb_populate_record(p_holder, (p_job->'given') - '{${identity.map(columnOf).join(",")}}'::text[]);
  j.deadline_at := @due_v1(p_now, p_job->'deadline');
  UPDATE @uniq SET held_until = ${heldUntil("j.unique_hold")}
  WHERE key = j.unique_key AND seq = j.seq;
  j := @place_v1(p_now, j, p_job);
  RETURN @write_v1(p_holder, @advance_v1(p_holder.state, j), ${eventCodes.replaced}, true);
END $$;
`;
