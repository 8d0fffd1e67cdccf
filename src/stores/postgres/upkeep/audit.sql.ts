/**
 * The index audit: reads all derived rows and corrects wrong ones. In a healthy store it repairs nothing. A repair
 * means a bug or a manual change in the database, so repairs are counted by kind for operators.
 */
import { jobTables, ofAllTables } from "../functions/columns.ts";
import { auditLanes, auditPermits } from "../groups/audit-lanes.sql.ts";
import { usesOf } from "../limits/admit.sql.ts";
import { sql } from "../../../store/sql.ts";

/**
 * In this order: records that cannot be read, clocks of waiting and of running jobs, keys, orphans, gates, lanes,
 * counts.
 */
export const auditPhases: readonly string[] = [
  "unreadable",
  "jobs",
  "leases",
  "unique",
  "orphans",
  "gates",
  "permits",
  "lanes",
  "counts",
];

/** The lowest possible seq: a damaged row may have any. */
const firstSeq = "'-9223372036854775808'::int8";
/**
 * The phase unreadable reads this many times the rows of the others, which do more with each row. Reading all jobs at
 * once took 50 ms for 60,000.
 */
const lookedAtOnce = 4;
const seqsAfter = jobTables
  .map(
    (table) =>
      sql`(SELECT seq FROM @${table} WHERE seq > v_after ORDER BY seq LIMIT p_max * ${lookedAtOnce})`,
  )
  .join("\nUNION ALL ");

const deleteOrphans = (table: string, isOwner: string): string => sql`
  DELETE FROM @${table} t WHERE NOT EXISTS (
    ${ofAllTables("1", isOwner)});
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  repaired := repaired || jsonb_build_object('${table}', v_rows);`;

export const auditSql = sql`
-- One phase of the audit. repaired: how many rows were wrong, by kind. The phases jobs, unique and lanes read p_max
-- rows after p_after, unreadable reads more. checked: how many rows were read; last: the last of them, in the phase
-- unreadable only if there are more.
CREATE FUNCTION @audit_v1(p_now int8, p_commit text, p_phase text, p_after text, p_max int4,
  OUT repaired jsonb, OUT checked int8, OUT last text) LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_rows int8; v_after int8; v_last int8; v_gates text[]; v_more bool;
  v_keys text[]; v_wrong text[]; v_scopes text[];
BEGIN
  repaired := '{}';
  checked := 0;
  CASE p_phase
  WHEN 'unreadable' THEN
    v_after := coalesce(nullif(p_after, '')::int8, ${firstSeq});
    SELECT count(*), max(seq) INTO checked, v_last FROM (
      SELECT seq FROM (
        ${seqsAfter}) s
      ORDER BY seq LIMIT p_max * ${lookedAtOnce}) w;
    repaired := jsonb_build_object('unreadable', @keep_unreadable_v1(v_now, NULL, NULL, v_after, v_last));
    IF checked = p_max * ${lookedAtOnce} THEN last := v_last; END IF;
  WHEN 'jobs' THEN
    v_after := coalesce(nullif(p_after, '')::int8, 0);
    SELECT count(*), max(seq) INTO checked, v_last FROM (
      SELECT seq FROM @waiting WHERE seq > v_after ORDER BY seq LIMIT p_max) w;
    last := v_last;
    UPDATE @waiting j SET timer_at = @timer_v1(j)
    WHERE seq > v_after AND seq <= v_last AND timer_at IS DISTINCT FROM @timer_v1(j);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('timer', v_rows);
  WHEN 'leases' THEN
    UPDATE @leased l SET timer_at = @timer_v1(ROW(l.*)) WHERE timer_at IS DISTINCT FROM @timer_v1(ROW(l.*));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('timer', v_rows);
  WHEN 'unique' THEN
    -- Keys held by a job, not by time, whose job is not live any more.
    SELECT count(*), max(key) INTO checked, last FROM (
      SELECT key FROM @uniq WHERE key > p_after ORDER BY key LIMIT p_max) k;
    DELETE FROM @uniq u WHERE key > p_after AND key <= last AND held_until IS NULL AND NOT EXISTS (
      SELECT 1 FROM @waiting w WHERE w.id = u.id UNION ALL SELECT 1 FROM @leased l WHERE l.id = u.id);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('unique', v_rows);
  WHEN 'orphans' THEN
    -- Rows of deleted jobs. A row that another call is moving is in exactly one of the tables in a statement's
    -- snapshot.
    ${deleteOrphans("tag", "j.id = t.id")}
    ${deleteOrphans("journal", "j.seq = t.seq")}
    ${deleteOrphans("entry", "j.seq = t.seq")}
    ${deleteOrphans("slip", "j.seq = t.seq")}
    ${deleteOrphans("payload", "j.seq = t.seq")}
  WHEN 'gates' THEN
    -- Without these rows claims would not know the gates of a route, and would leave its jobs out.
    INSERT INTO @gate_use
    SELECT u.key, u.route, u.weight FROM @route r CROSS JOIN LATERAL (
      ${usesOf("r.number", "r.queue", "r.gates")}) u
    EXCEPT SELECT key, route, weight FROM @gate_use;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('gate-use', v_rows);
  WHEN 'permits' THEN
    ${auditPermits}
  WHEN 'lanes' THEN
    ${auditLanes}
  WHEN 'counts' THEN
    repaired := jsonb_build_object('state-count', @recount_v1(NULL));
    PERFORM @fold_v1();
  END CASE;
END $$;
`;
