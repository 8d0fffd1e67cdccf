/**
 * Rule R3 (store/rules/finish.ts): the end of a job, whatever ended it. A member of a flow is kept as long as its flow.
 * The caller frees the key that the job holds. If p_next keeps its lane, the job goes on holding the gate of its group.
 */
import { keptForeverAt } from "../../../store/rules/finish.ts";
import { clearSql } from "../functions/columns.ts";
import { isMember } from "../flows/member.sql.ts";
import { sql } from "../../../store/sql.ts";

export const finishSql = sql`
-- p_next: a Finish, its state as a code.
CREATE FUNCTION @finish_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  ${clearSql("finish")}
  j.state := (p_next->>'to')::int2;
  j.keeps_lane := CASE WHEN j.lane_key IS NOT NULL AND (p_next->>'keepsLane')::bool THEN 1 ELSE 0 END;
  j.ended_at := p_now;
  IF ${isMember("j.")} THEN
    j.keep_until := ${keptForeverAt};
    j.result_until := NULL;
  ELSE
    j.keep_until := p_now + (p_next->>'keepMs')::int8;
    j.result_until := p_now + (p_next->>'keepResultMs')::int8;
  END IF;
  j.reason := p_next->>'reason';
  j.result := p_next->>'result';
  RETURN j;
END $$;
`;
