/**
 * The feed in an order that never skips. A record gets its number not from the call that wrote it but from the first
 * reader that sees it: all that is visible and has no number yet is numbered, by id, under a lock. A call that commits
 * late is simply numbered later, so no long transaction holds the feed up and nobody who goes on from a number misses
 * anything.
 *
 * Inside a job the order is that of rev: a call that changes a job again sees the call before it committed, and took
 * its feed id behind it.
 */
import { sql } from "../../../store/sql.ts";
const numberedMax = 2000;
/** Whoever asks for the end alone does not come back for what is before it. */
const roundsMax = 10;

export const feedSql = sql`
CREATE FUNCTION @number_feed_v1() RETURNS int4 LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_numbered int4;
BEGIN
  PERFORM 1 FROM @feed WHERE number IS NULL LIMIT 1;
  IF NOT FOUND THEN RETURN 0; END IF;
  -- What somebody has read must not vanish in a crash, and claims do not wait for the disk.
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
