/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing; a
 * repair means a bug or a hand in the database, and is counted by kind so that somebody looks.
 *
 *  set aside -> timers (waiting, then leased) -> keys -> orphans -> tallies
 */
import { ofAllTables } from "../columns.ts";
import { timerSql } from "./rules/advance.ts";

/** Written out: a row of leased is not of the type that timer_v1 takes. */
const leasedTimer = timerSql((column) => column);

export const auditSql = (s: string): string => `
-- Timers of one table behind p_after; answers how many rows were looked at, how many were wrong and the last seq.
CREATE FUNCTION ${s}.audit_timers_v1(p_commit text, p_after int8, p_max int4, OUT checked int8, OUT repaired int8, OUT last int8) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${s}.begin_v1(0, p_commit);
  SELECT count(*), max(seq) INTO checked, last FROM (SELECT seq FROM ${s}.waiting WHERE seq > p_after ORDER BY seq LIMIT p_max) w;
  UPDATE ${s}.waiting j SET timer_at = ${s}.timer_v1(j) WHERE seq > p_after AND seq <= last AND timer_at IS DISTINCT FROM ${s}.timer_v1(j);
  GET DIAGNOSTICS repaired = ROW_COUNT;
END $$;

CREATE FUNCTION ${s}.audit_leases_v1(p_commit text, OUT checked int8, OUT repaired int8) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${s}.begin_v1(0, p_commit);
  SELECT count(*) INTO checked FROM ${s}.leased;
  UPDATE ${s}.leased SET timer_at = ${leasedTimer} WHERE timer_at IS DISTINCT FROM ${leasedTimer};
  GET DIAGNOSTICS repaired = ROW_COUNT;
END $$;

-- Keys held by a job, not by time, of which no live job is there.
CREATE FUNCTION ${s}.audit_keys_v1(p_commit text, p_after text, p_max int4, OUT checked int8, OUT repaired int8, OUT last text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${s}.begin_v1(0, p_commit);
  SELECT count(*), max(key) INTO checked, last FROM (SELECT key FROM ${s}.uniq WHERE key > p_after ORDER BY key LIMIT p_max) k;
  DELETE FROM ${s}.uniq u WHERE key > p_after AND key <= last AND held_until IS NULL
    AND NOT EXISTS (SELECT 1 FROM ${s}.waiting w WHERE w.id = u.id UNION ALL SELECT 1 FROM ${s}.leased l WHERE l.id = u.id);
  GET DIAGNOSTICS repaired = ROW_COUNT;
END $$;

-- Tags, log lines and payloads of jobs that are gone. A row that a call is just moving is in one of the tables of this
-- statement's snapshot.
CREATE FUNCTION ${s}.audit_orphans_v1(p_commit text, OUT tags int8, OUT lines int8, OUT payloads int8) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${s}.begin_v1(0, p_commit);
  DELETE FROM ${s}.tag t WHERE NOT EXISTS (${ofAllTables(s, "1", "j.id = t.id")});
  GET DIAGNOSTICS tags = ROW_COUNT;
  DELETE FROM ${s}.trail t WHERE NOT EXISTS (${ofAllTables(s, "1", "j.seq = t.seq")});
  GET DIAGNOSTICS lines = ROW_COUNT;
  DELETE FROM ${s}.payload t WHERE NOT EXISTS (${ofAllTables(s, "1", "j.seq = t.seq")});
  GET DIAGNOSTICS payloads = ROW_COUNT;
END $$;

CREATE FUNCTION ${s}.audit_tallies_v1(p_commit text) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_repaired int8;
BEGIN
  PERFORM ${s}.begin_v1(0, p_commit);
  v_repaired := ${s}.recount_v1(NULL);
  PERFORM ${s}.fold_v1();
  RETURN v_repaired;
END $$;
`;
