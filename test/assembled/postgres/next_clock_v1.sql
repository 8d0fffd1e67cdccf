-- The earliest clock of any live job or document; null without one.
CREATE FUNCTION @next_clock_v1() RETURNS int8 LANGUAGE sql STABLE AS $$
  SELECT least(
    (SELECT due_at FROM @waiting WHERE state = 1 ORDER BY due_at, seq LIMIT 1),
    (SELECT timer_at FROM @waiting
      WHERE timer_at IS NOT NULL AND (state <> 1 OR timer_at < due_at)
      ORDER BY timer_at, seq LIMIT 1),
    (SELECT timer_at FROM @leased ORDER BY timer_at, seq LIMIT 1),
    (SELECT due_at FROM @doc WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1))
$$;
