/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing; a
 * repair means a bug or a hand in the database, and is counted by kind so that somebody looks.
 *
 *  p_phase   timers (waiting, then leased) -> keys -> orphans -> tallies
 */
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
  DELETE FROM ${s}.tag t WHERE NOT EXISTS (SELECT 1 FROM ${s}.waiting j WHERE j.id = t.id UNION ALL SELECT 1 FROM ${s}.leased j WHERE j.id = t.id
    UNION ALL SELECT 1 FROM ${s}.history j WHERE j.id = t.id);
  GET DIAGNOSTICS tags = ROW_COUNT;
  DELETE FROM ${s}.trail t WHERE NOT EXISTS (SELECT 1 FROM ${s}.waiting j WHERE j.seq = t.seq UNION ALL SELECT 1 FROM ${s}.leased j WHERE j.seq = t.seq
    UNION ALL SELECT 1 FROM ${s}.history j WHERE j.seq = t.seq);
  GET DIAGNOSTICS lines = ROW_COUNT;
  DELETE FROM ${s}.payload t WHERE NOT EXISTS (SELECT 1 FROM ${s}.waiting j WHERE j.seq = t.seq UNION ALL SELECT 1 FROM ${s}.leased j WHERE j.seq = t.seq
    UNION ALL SELECT 1 FROM ${s}.history j WHERE j.seq = t.seq);
  GET DIAGNOSTICS payloads = ROW_COUNT;
END $$;

-- A recount in one snapshot with the tallies: exact at every commit, so any difference is a wrong one. The correction
-- is one more delta.
CREATE FUNCTION ${s}.audit_tallies_v1(p_commit text) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_repaired int8;
BEGIN
  PERFORM ${s}.begin_v1(0, p_commit);
  WITH real AS (
    SELECT route, state, count(*) AS jobs FROM (SELECT route, state FROM ${s}.waiting UNION ALL SELECT route, state FROM ${s}.leased
      UNION ALL SELECT route, state FROM ${s}.history) j GROUP BY route, state),
  told AS (SELECT route, state, sum(count) AS jobs FROM ${s}.tally GROUP BY route, state)
  INSERT INTO ${s}.tally SELECT route, state, coalesce(r.jobs, 0) - coalesce(t.jobs, 0) FROM real r FULL JOIN told t USING (route, state)
    WHERE coalesce(r.jobs, 0) <> coalesce(t.jobs, 0);
  GET DIAGNOSTICS v_repaired = ROW_COUNT;
  PERFORM ${s}.fold_v1();
  RETURN v_repaired;
END $$;
`;
