-- The number of permits that these gates of keys let pass may have changed.
CREATE FUNCTION @gates_changed_v1(p_gates text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO @lane_change (scope, gates)
  SELECT scope, array_agg(item) FROM
    (SELECT scope, item, row_number() OVER (PARTITION BY scope) AS number FROM (
      SELECT split_part(g, E'\t', 1) AS scope, g AS item FROM unnest(p_gates) g) d) n
    GROUP BY scope, (number - 1) / 100;
END $$;
