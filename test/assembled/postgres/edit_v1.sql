-- p_edit: {input?, policy?, meta?, tags?}; null for none.
CREATE FUNCTION @edit_v1(j @waiting, p_edit jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_edit ? 'input' THEN j.input := p_edit->>'input'; END IF;
  IF p_edit ? 'policy' THEN j.policy := p_edit->>'policy'; END IF;
  IF p_edit ? 'meta' THEN j.meta := p_edit->>'meta'; END IF;
  IF p_edit ? 'tags' THEN j.tags := p_edit->>'tags'; END IF;
  RETURN j;
END $$;
