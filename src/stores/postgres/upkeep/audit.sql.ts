/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing;
 * a repair means a bug or a hand in the database, and is counted by kind so that somebody looks.
 */
import { jobTables, ofAllTables } from "../functions/columns.ts";
import { auditLanes, auditPermits } from "../groups/audit-lanes.sql.ts";
import { usesOf } from "../limits/admit.sql.ts";
import { sql } from "../../../store/sql.ts";

/**
 * In this order: records that cannot be read, clocks of the waiting and of the running, keys, orphans, gates, lanes,
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
  "tallies",
];

/** A row may have been given any seq. */
const firstSeq = "'-9223372036854775808'::int8";
/** Times the rows of the other phases, which do more with each. A look at all jobs at once took 50 ms of 60,000. */
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
-- One phase of the audit. repaired: how many were wrong, by kind. The phases jobs, unique and lanes look at p_max rows
-- after p_after, unreadable at more. checked: how many rows these were; last: which was the last one, in the phase
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
    -- Keys held by a job, not by time, whose job does not live any more.
    SELECT count(*), max(key) INTO checked, last FROM (
      SELECT key FROM @uniq WHERE key > p_after ORDER BY key LIMIT p_max) k;
    DELETE FROM @uniq u WHERE key > p_after AND key <= last AND held_until IS NULL AND NOT EXISTS (
      SELECT 1 FROM @waiting w WHERE w.id = u.id UNION ALL SELECT 1 FROM @leased l WHERE l.id = u.id);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('unique', v_rows);
  WHEN 'orphans' THEN
    -- Of jobs that are gone. A row that a call is just moving is in one of the tables of a statement's snapshot.
    ${deleteOrphans("tag", "j.id = t.id")}
    ${deleteOrphans("journal", "j.seq = t.seq")}
    ${deleteOrphans("payload", "j.seq = t.seq")}
  WHEN 'gates' THEN
    -- Without these nobody would know what the jobs of a route have to pass, and nobody would claim them.
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
  WHEN 'tallies' THEN
    repaired := jsonb_build_object('tally', @recount_v1(NULL));
    PERFORM @fold_v1();
  END CASE;
END $$;
`;
