/**
 * The feed in an order that never skips a record. A record gets its number from the first reader that sees it, not from
 * the call that wrote it: a read numbers all visible records without a number, by id, under a lock. If a call commits
 * late, its record is numbered later. So a long transaction does not hold up the feed, and a reader that goes on from a
 * number misses nothing.
 *
 * The records of one job are in order of its rev: a call that changes a job again has seen the commit of the call
 * before, and has taken its feed id after it.
 */
import { sql } from "../../../store/sql.ts";
const numberedMax = 2000;
/** A reader that only asks for the end does not return for earlier records, so this many pages are numbered for it. */
const roundsMax = 10;

export const feedSql = sql`
CREATE FUNCTION @number_feed_v1() RETURNS int4 LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_numbered int4;
BEGIN
  PERFORM 1 FROM @feed WHERE number IS NULL LIMIT 1;
  IF NOT FOUND THEN RETURN 0; END IF;
  -- A record that a reader has seen must not vanish in a crash. Claims do not wait for the disk, so this commit does.
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('@feed', 0));
  UPDATE @feed f SET number = n.number FROM (
    SELECT ctid, coalesce((SELECT max(number) FROM @feed WHERE number IS NOT NULL), 0)
      + row_number() OVER (ORDER BY id) AS number
    FROM (SELECT ctid, id FROM @feed WHERE number IS NULL ORDER BY id LIMIT ${numberedMax}) fresh) n
  WHERE f.ctid = n.ctid;
  GET DIAGNOSTICS v_numbered = ROW_COUNT;
  RETURN v_numbered;
END $$;

-- Records after the number p_after. p_after < 0: no record, but the number of the newest one.
CREATE FUNCTION @read_feed_v1(p_after int8, p_max int4) RETURNS TABLE (number int8, at int8, body text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  FOR i IN 1..CASE WHEN p_after < 0 THEN ${roundsMax} ELSE 1 END LOOP
    EXIT WHEN @number_feed_v1() < ${numberedMax};
  END LOOP;
  IF p_after < 0 THEN
    RETURN QUERY SELECT coalesce(max(f.number), 0), 0::int8, ''::text FROM @feed f WHERE f.number IS NOT NULL;
  ELSE
    RETURN QUERY SELECT f.number, f.at, f.body FROM @feed f WHERE f.number > p_after ORDER BY f.number LIMIT p_max;
  END IF;
END $$;
`;
