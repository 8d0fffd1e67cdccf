/**
 * change: what operators and duties do to a job under a guard (R2). The first case whose guard holds is applied.
 *
 *  args     jobs, their ids, then per change: number of cases, and per case: guard, next, log
 *  guard    statuses US rev US fence US clock (l lease, a attempt, d deadline, t ttl); "" asks nothing
 *  answer   now, own hints, then per change: ok US case US from US status US rev, changed US status US rev, key-held US id, or gone
 */
export const changeLua = String.raw`
local CLOCKS = { l = "lease", a = "ends", d = "deadline", t = "ttl" }

local function hasClockRung(c, job, clock)
  if isTerminal(job.status) then return false end
  local at = job[CLOCKS[clock]]
  return at ~= "" and tonumber(at) <= c.now
end

local function holds(c, job, guard)
  local statuses, rev, fence, clock = unpack(split(guard, US))
  return find(statuses, job.status, 1, true) and (rev == "" or tonumber(rev) == job.rev) and (fence == "" or fence == job.fence)
    and (clock == "" or hasClockRung(c, job, clock))
end

local function changeOne(c, id, first, cases)
  local h = handleById(c, id)
  local job = h and jobOf(c, h)
  if not job then return "gone" end
  for n = 0, cases - 1 do
    local guard, next, log = c.args[first + n * 3], c.args[first + n * 3 + 1], c.args[first + n * 3 + 2]
    if holds(c, job, guard) then
      local parts, from = split(next, US), job.status
      if parts[1] == "S" and isTerminal(from) and job.hold == "e" then
        local entry = holderOf(c, job.key)
        if entry and isHeld(c, entry) then return "key-held" .. US .. entry.id end
      end
      touch(c, job)
      if log ~= "" then job.log = log end
      apply(c, job, parts)
      return concat({ "ok", n, from, parts[1] == "X" and "" or job.status, job.rev }, US)
    end
  end
  return concat({ "changed", job.status, job.rev }, US)
end

-- Allowed without memory: cancelling and removing jobs is how an operator makes room.
redis.register_function({ function_name = "mr1_change", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local total, ids = tonumber(nextArg(c)), {}
  for i = 1, total do ids[i] = nextArg(c) end
  local handles = fetch("HMGET", c.k.ids, ids)
  for i = 1, total do c.ids[ids[i]] = handles[i] end
  loadJobs(c, handles)
  local answers = {}
  for i = 1, total do
    local cases = tonumber(nextArg(c))
    answers[i] = changeOne(c, ids[i], c.i, cases)
    c.i = c.i + cases * 3
  end
  return { c.at, finish(c), answers }
end })
`;
