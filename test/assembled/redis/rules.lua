-- jobs/rules
module(function()
local after, beginRound, clearForFinish, clearForLease = M.after, M.beginRound, M.clearForFinish, M.clearForLease
local clearForPlace, clearForReplay, deleteJob, emit = M.clearForPlace, M.clearForReplay, M.deleteJob, M.emit
local freeKey, instant, isMember, isTerminal = M.freeKey, M.instant, M.isMember, M.isTerminal
local KEPT_FOREVER_AT, num, readTail, tailOf, tailText = M.KEPT_FOREVER_AT, M.num, M.readTail, M.tailOf, M.tailText
local takeKey, touch, withPassed = M.takeKey, M.touch, M.withPassed

local ARROWS = { ["00"] = true, ["02"] = true, ["01"] = true, ["05"] = true,
  ["06"] = true, ["09"] = true, ["07"] = true, ["08"] = true,
  ["11"] = true, ["12"] = true, ["17"] = true, ["18"] = true,
  ["22"] = true, ["23"] = true, ["21"] = true, ["26"] = true,
  ["27"] = true, ["28"] = true, ["33"] = true, ["35"] = true,
  ["36"] = true, ["37"] = true, ["38"] = true, ["39"] = true,
  ["31"] = true, ["34"] = true, ["32"] = true, ["44"] = true,
  ["42"] = true, ["41"] = true, ["46"] = true, ["47"] = true,
  ["48"] = true, ["55"] = true, ["52"] = true, ["51"] = true,
  ["50"] = true, ["66"] = true, ["62"] = true, ["61"] = true,
  ["60"] = true, ["77"] = true, ["72"] = true, ["71"] = true,
  ["70"] = true, ["88"] = true, ["82"] = true, ["81"] = true,
  ["80"] = true, ["99"] = true, ["92"] = true, ["91"] = true, ["90"] = true }
local CLOCKS = {
  lease = "leaseEndsAt",
    attempt = "attemptEndsAt",
    deadline = "deadlineAt",
    ttl = "ttlAt",
    wake = "ttlAt",
}
local EDITED = { "input", "policy", "meta" }

local function advance(job, to)
  assert(ARROWS[job.state .. to], "MRARROW a job cannot move from state " .. job.state .. " to " .. to)
  job.state, job.uses = to, to == RUNNING and job.laneGates or ""
  job.rev = job.rev + 1
end

-- R1: due, rank and time to live by what was asked (due, rankBase, rankSlope, ttlMs). Answers the state that follows.
local function placeOf(c, job, asked)
  local at = instant(c, asked.due)
  job.dueAt = at == c.now and c.at or num(at)
  local rank = asked.rankBase + asked.rankSlope * at
  job.rank = rank == at and job.dueAt or num(rank)
  job.ttlAt = asked.ttlMs == "" and "" or num(at + asked.ttlMs)
  return at <= c.now and READY or SCHEDULED
end

-- The texts that no rule reads, of a job that has not started, and its tags.
local function edit(job, next)
  local tail
  for _, name in ipairs(EDITED) do
    if next[name] ~= UNCHANGED then
      tail = tail or readTail(tailOf(job))
      tail[name] = next[name]
    end
  end
  if tail then
    job.tail, job.isRewritten = tailText(tail), true
  end
  if next.tags ~= UNCHANGED then
    job.tags, job.isRewritten = next.tags, true
  end
end

-- A job that comes back with a deadline that has passed would end at once.
local function clearPassedDeadline(c, job)
  if job.deadlineAt ~= "" and tonumber(job.deadlineAt) <= c.now then
    job.deadlineAt, job.isRewritten = "", true
  end
end

-- R1 for a live job that waits (again): a schedule, or a hand-back to where it stood. Its lease is over; who ran it
-- last stays.
local function place(c, job, next)
  local to = READY
  -- A replay of a job that holds its group goes on holding it until it is ready, as the first of its lane.
  local keeps = next.keepsLane == "1" or isTerminal(job.state) and job.keepsLane == "1"
  clearForPlace(job)
  if next.kind == "schedule" then
    local rank = job.rank
    to = placeOf(c, job, next)
    if keeps and job.laneKey ~= "" then
      job.rank, job.keepsLane = rank, to == SCHEDULED and "1" or "0"
    end
    edit(job, next)
    if next.attempt ~= "" then job.attempt = tonumber(next.attempt) end
    if next.clearsPassedDeadline == "1" then clearPassedDeadline(c, job) end
    if next.newRound == "1" then beginRound(c, job) end
  end
  job.countsAttempt = next.countsAttempt
  advance(job, to)
end

-- R1: a running job waits for an append or a time. It keeps its rank and its due time.
local function suspend(c, job, next)
  clearForPlace(job)
  if next.wake ~= "" then job.ttlAt = num(instant(c, next.wake)) end
  job.countsAttempt = next.countsAttempt
  if next.attempt ~= "" then job.attempt = tonumber(next.attempt) end
  if next.keepsLane == "1" and job.laneKey ~= "" then job.keepsLane = "1" end
  advance(job, SUSPENDED)
end

-- R2: whether this clock of a live job has rung. The time to live of a suspended job is when it wakes.
local function hasClockRung(c, job, clock)
  if isTerminal(job.state) then return false end
  if (clock == "wake" or clock == "ttl") and (clock == "wake") ~= (job.state == SUSPENDED) then return false end
  local at = job[CLOCKS[clock]]
  return at ~= "" and tonumber(at) <= c.now
end

-- R2: whether the guard of a change holds; what it leaves empty it does not ask.
local function isHeld(c, guard, job)
  return find(guard.states, job.state, 1, true)
    and (guard.rev == "" or tonumber(guard.rev) == job.rev)
    and (guard.fence == "" or guard.fence == job.fence)
    and (guard.rang == "" or hasClockRung(c, job, guard.rang))
    and (guard.mask == "" or bit.band(tonumber(job.durable), tonumber(guard.mask)) == tonumber(guard.marks))
end

-- R3: the end. A key is freed unless it is held by time; the gate of its group, unless the job keeps its lane. A member
-- of a flow is kept with its result as long as its flow.
local function finish(c, job, next)
  clearForFinish(job)
  job.endedAt, job.keepUntil, job.reason, job.result = c.at, after(c, next.keepMs), next.reason, next.result
  job.resultUntil = after(c, next.keepResultMs)
  if isMember(job) then
    job.keepUntil, job.resultUntil = KEPT_FOREVER_AT, ""
  end
  job.keepsLane = next.keepsLane == "1" and job.laneKey ~= "" and "1" or "0"
  freeKey(c, job, HOLD_STARTED, HOLD_END)
  advance(job, next.to)
end

-- R5
local function promote(job)
  job.keepsLane = "0"
  advance(job, READY)
end

-- R6: the fence is greater than any before; the time to live ends, and a key held until the start is freed.
local function lease(c, job, owner, endsAt, isStarted)
  job.fence = num(max(tonumber(job.fence), c.fence) + 1)
  job.attempt = job.attempt + job.countsAttempt
  clearForLease(job)
  job.owner, job.claimedAt, job.startedAt, job.leaseEndsAt = owner, c.at, isStarted and c.at or "", endsAt
  freeKey(c, job, HOLD_STARTED)
  advance(job, RUNNING)
end

local function update(_, job, next)
  -- A signal is no new rev: else every guard by rev would fail.
  if next.event == SIGNALLED then return end
  if next.cancelAsked ~= "" then job.cancelAsked = next.cancelAsked end
  if next.rankBase ~= "" or next.rankSlope ~= "" then
    local base, slope = next.rankBase == "" and 0 or next.rankBase, next.rankSlope == "" and 1 or next.rankSlope
    job.rank = num(base + slope * job.dueAt)
  end
  edit(job, next)
  advance(job, job.state)
end

local function delete(c, job)
  assert(job.state ~= RUNNING, "MRARROW a running job cannot be deleted")
  freeKey(c, job)
  advance(job, job.state)
end

-- A finished job comes back; a key held until the end is taken again (the caller has seen that it is free). Its end
-- has been passed on to nobody.
local function comeBack(c, job)
  clearForReplay(job)
  if job.waits ~= "" then job.waits = withPassed(job.waits, 0) end
  if job.uniqueHold == HOLD_END then takeKey(c, job) end
end

local function replay(c, job, next)
  comeBack(c, job)
  place(c, job, next)
end

-- By the kind of a next; block (arrive.lua.ts) joins them.
local RULES =
  { schedule = place, handBack = place, suspend = suspend, update = update, delete = delete, finish = finish }

-- Applies what the model computed (model/job/change.ts), and emits it, with the note of a settle. Guards were checked.
local function apply(c, job, next, note)
  touch(c, job)
  local rule = RULES[next.kind]
  if rule == place and isTerminal(job.state) then
    assert(next.kind == "schedule", "MRARROW a finished job comes back only by a schedule")
    rule = replay
  end
  rule(c, job, next)
  local isGone = rule == delete
  emit(c, job, next.event, isGone, note)
  if isGone or next.keepMs == "0" and not isMember(job) then deleteJob(c, job) end
end

M.advance, M.placeOf, M.clearPassedDeadline = advance, placeOf, clearPassedDeadline
M.hasClockRung, M.isHeld, M.finish, M.promote, M.lease = hasClockRung, isHeld, finish, promote, lease
M.comeBack, M.RULES, M.apply = comeBack, RULES, apply
end)
