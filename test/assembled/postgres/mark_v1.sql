-- Writes the marks of job j into its row, which stays where it is.
CREATE FUNCTION @mark_v1(j @waiting) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.state = 3 THEN
    UPDATE @leased w SET
      durable = j.durable, deadline_at = j.deadline_at, cancel_asked = j.cancel_asked, timer_at = j.timer_at,
      attempt = j.attempt, attempts = j.attempts, change_token = j.change_token
    WHERE w.id = j.id AND true AND (
        w.durable, w.deadline_at, w.cancel_asked, w.timer_at, w.attempt, w.attempts, w.change_token)
      IS DISTINCT FROM (
        j.durable, j.deadline_at, j.cancel_asked, j.timer_at, j.attempt, j.attempts, j.change_token);
  ELSIF j.state < 5 THEN
    UPDATE @waiting w SET
      durable = j.durable, deadline_at = j.deadline_at, cancel_asked = j.cancel_asked, timer_at = j.timer_at,
      attempt = j.attempt, attempts = j.attempts, change_token = j.change_token
    WHERE w.id = j.id AND true AND (
        w.durable, w.deadline_at, w.cancel_asked, w.timer_at, w.attempt, w.attempts, w.change_token)
      IS DISTINCT FROM (
        j.durable, j.deadline_at, j.cancel_asked, j.timer_at, j.attempt, j.attempts, j.change_token);
  ELSE
    UPDATE @history w SET
      durable = j.durable, deadline_at = j.deadline_at, cancel_asked = j.cancel_asked, timer_at = j.timer_at,
      attempt = j.attempt, attempts = j.attempts, change_token = j.change_token
    WHERE w.id = j.id AND w.ended_at = j.ended_at AND (
        w.durable, w.deadline_at, w.cancel_asked, w.timer_at, w.attempt, w.attempts, w.change_token)
      IS DISTINCT FROM (
        j.durable, j.deadline_at, j.cancel_asked, j.timer_at, j.attempt, j.attempts, j.change_token);
  END IF;
END $$;
