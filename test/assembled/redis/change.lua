-- jobs/change
module(function()
local appendEntry, apply, fetch, follow, FREES = M.appendEntry, M.apply, M.fetch, M.follow, M.FREES
local handleById, hasPassedOn, isFull, isHeld = M.handleById, M.hasPassedOn, M.isFull, M.isHeld
local isKnownKey, isTerminal, jobOf, leaveTargets = M.isKnownKey, M.isTerminal, M.jobOf, M.leaveTargets
local loadJobs, nextArg, nextNumber, readFields, serve = M.loadJobs, M.nextArg, M.nextNumber, M.readFields, M.serve
local takerOf, takeTargets, touch, WRITES, writeCall = M.takerOf, M.takeTargets, M.touch, M.WRITES, M.writeCall

local CASE_ARGS, KEY_OF_APPEND = 4, "^" .. times(SKIP, 5) .. TAKE

-- The journal knows the key of an entry of one of these cases, which mostly have the same.
local function isRepeated(c, job, cases)
  local last
  for n = 0, cases - 1 do
    local append = c.args[c.i + n * CASE_ARGS + CASE_ARGS - 1]
    local key = append ~= "" and match(append, KEY_OF_APPEND)
    if key and key ~= last and isKnownKey(c, job, key) then return true end
    last = key
  end
  return false
end

-- Why a finished job cannot come back: its end has not gone along all its edges, or another job holds the key that it
-- has to take.
local function replayRefusal(c, job, next)
  if not isTerminal(job.state) or not (next.kind == "schedule" or next.kind == "block") then return nil end
  if not hasPassedOn(job) then return concat({ "changed", job.state, job.rev }, US) end
  local taker = job.uniqueHold == HOLD_END and takerOf(c, job.uniqueKey)
  return taker and "key-held" .. US .. taker.id
end

local function changeOne(c, id)
  local token, cases, h, answer = nextArg(c), nextNumber(c), handleById(c, id), nil
  local job = h and jobOf(c, h)
  if job and isRepeated(c, job, cases) then answer = concat({ "repeated", job.state, job.rev }, US) end
  for n = 0, cases - 1 do
    local guard, next, attempts, append = nextArg(c), nextArg(c), nextArg(c), nextArg(c)
    if job and not answer and isHeld(c, readFields(guard, "guard"), job) then
      next, append = readFields(next), append ~= "" and readFields(append, "append")
      local from = job.state
      if append and isFull(job, append) then
        answer = concat({ "full", job.state, job.rev }, US)
      else
        answer = replayRefusal(c, job, next)
      end
      if not answer then
        touch(c, job)
        if attempts ~= "" then job.attempts = attempts end
        if token ~= "" then job.changeToken = token end
        if append then appendEntry(c, job, append, true) end
        apply(c, job, next)
        answer = concat({ "ok", n, from, next.kind == "delete" and "" or job.state, job.rev }, US)
        follow(c, job, from, next)
      end
    end
  end
  if not job then return "gone" end
  local isRepeat = token ~= "" and job.changeToken == token
  return answer or concat({ isRepeat and "already" or "changed", job.state, job.rev }, US)
end

local function changeAll(c)
  local total, ids, answers = nextNumber(c), {}, {}
  for i = 1, total do
    ids[i] = nextArg(c)
  end
  local handles = fetch("HMGET", c.k.ids, ids)
  for i = 1, total do
    c.ids[ids[i]] = handles[i]
  end
  loadJobs(c, handles)
  takeTargets(c)
  for i = 1, total do
    answers[i] = changeOne(c, ids[i])
  end
  leaveTargets(c)
  return { writeCall(c), answers }
end

-- Allowed without memory: cancelling and removing jobs is how an operator makes room. Not so entries of journals.
serve("change", FREES, changeAll)
serve("change_journals", WRITES, changeAll)

end)
