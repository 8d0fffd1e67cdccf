-- The argument for lane_hints_v1, taken of one job before it is changed; null if the job holds nothing.
CREATE FUNCTION @leaves_v1(j @waiting) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN j.state = 3 OR j.keeps_lane = 1 THEN jsonb_build_object(
    'lane', j.lane_key, 'limits', ARRAY(SELECT key FROM @permit WHERE seq = j.seq AND NOT is_own)) END
$$;
