-- Whether the entry of an append is one too many, or too large. p_append: {entry, unreadMax?: {count, size}}.
CREATE FUNCTION @is_full_v1(p_seq int8, p_append jsonb) RETURNS bool LANGUAGE sql STABLE AS $$
  SELECT p_append ? 'unreadMax' AND (
    SELECT count(*) + (p_append->'entry' ? 'unread')::int4 > (p_append->'unreadMax'->>'count')::int8
      OR coalesce(sum(unread), 0) + coalesce((p_append->'entry'->>'unread')::int8, 0)
        > (p_append->'unreadMax'->>'size')::int8
    FROM @entry WHERE seq = p_seq AND unread IS NOT NULL)
$$;
