-- jobs/change
module(function()
local apply, fetch, follow, FREES, handleById = M.apply, M.fetch, M.follow, M.FREES, M.handleById
local hasPassedOn, isHeld, isTerminal, jobOf = M.hasPassedOn, M.isHeld, M.isTerminal, M.jobOf
local leaveTargets, loadJobs, nextArg, nextNumber = M.leaveTargets, M.loadJobs, M.nextArg, M.nextNumber
local readFields, serve, takerOf, takeTargets, touch = M.readFields, M.serve, M.takerOf, M.takeTargets, M.touch
local writeCall = M.writeCall

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
  for n = 0, cases - 1 do
    local guard, next, attempts = nextArg(c), nextArg(c), nextArg(c)
    if job and not answer and isHeld(c, readFields(guard, "guard"), job) then
      next = readFields(next)
      local from = job.state
      answer = replayRefusal(c, job, next)
      if not answer then
        touch(c, job)
        if attempts ~= "" then job.attempts = attempts end
        if token ~= "" then job.changeToken = token end
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

-- Allowed without memory: cancelling and removing jobs is how an operator makes room.
serve("change", FREES, function(c)
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
end)

end)
