-- runs/extend
module(function()
local after, emit, fetch, FREES, handleById, jobOf = M.after, M.emit, M.fetch, M.FREES, M.handleById, M.jobOf
local loadJobs, nextArg, nextFlag, num, recordsOf = M.loadJobs, M.nextArg, M.nextFlag, M.num, M.recordsOf
local serve, touch, writeCall = M.serve, M.touch, M.writeCall

local LEASED = "^" .. SKIP .. times(TAKE, 2) .. times(SKIP, 15) .. "([^\31]*)"
local LEASE_ARGS, LOOKED_AT_ONCE = 5, 500

-- The job while this lease is the current one, else nothing and why not.
local function leased(c, h, prefix)
  local fence, id = match(prefix, "^([^\31]*)\31([^\31]*)\31$")
  local job = jobOf(c, h)
  if job and job.id == id then
    if job.state == RUNNING and job.fence == fence then return job end
    return nil, "stale"
  end
  return nil, handleById(c, id) and "stale" or "gone"
end

-- Running jobs of an owner that the call does not name. What was claimed under an earlier entry is left to the reclaim:
-- its owner may have run and settled it, and the settle was lost with the server.
local function othersOf(c, wanted, named)
  local found, at = {}, 0
  while true do
    local members = call("ZRANGE", c.k.lease, at, at + LOOKED_AT_ONCE - 1)
    if #members == 0 then break end
    at = at + #members
    local states = fetch("HMGET", c.k.state, members)
    for i, h in ipairs(members) do
      if states[i] then
        local fence, id, owner = match(states[i], LEASED)
        local isOther = owner == wanted and not named[fence .. US .. id .. US]
        if isOther and tonumber(fence) > c.fence then found[#found + 1] = h end
      end
    end
  end
  table.sort(found)
  -- Those that cannot be read are kept as unreadable, and have no record after this.
  loadJobs(c, found)
  return found
end

serve("extend", FREES, function(c)
  local owner, ends, wantsOthers = nextArg(c), c.now + nextArg(c), nextFlag(c)
  local handles, answers, named, grown = {}, {}, {}, {}
  for i = c.i, #c.args, LEASE_ARGS do
    handles[#handles + 1] = c.args[i]
  end
  loadJobs(c, handles)
  for i = 1, #handles do
    local h, prefix, startedAgo, endsIn, seen = nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c)
    named[prefix] = true
    local job, why = leased(c, h, prefix)
    if job then
      touch(c, job)
      if ends > tonumber(job.leaseEndsAt) then job.leaseEndsAt = num(ends) end
      if startedAgo ~= UNCHANGED then
        local isNews = job.startedAt == ""
        job.startedAt = num(c.now - startedAgo)
        if isNews then emit(c, job, STARTED) end
      end
      if seen ~= "" and job.last > tonumber(seen) then grown[#grown + 1] = i - 1 end
      if endsIn ~= UNCHANGED then job.attemptEndsAt = after(c, endsIn) end
      why = job.cancelAsked == "1" and "cancel-asked" or "ok"
    end
    answers[i] = why
  end
  local others = wantsOthers and recordsOf(c, othersOf(c, owner, named)) or {}
  return { c.at, writeCall(c), answers, others, grown }
end)

M.leased = leased
end)
