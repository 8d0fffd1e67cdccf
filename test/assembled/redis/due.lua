-- upkeep/due
module(function()
local emit, firstScore, hasClockRung, keepUnreadable = M.emit, M.firstScore, M.hasClockRung, M.keepUnreadable
local loadJobs, nextArg, nextClock, nextNumber = M.loadJobs, M.nextArg, M.nextClock, M.nextNumber
local noteHead, num, promote, push, push2, READS = M.noteHead, M.num, M.promote, M.push, M.push2, M.READS
local recordsOf, serve, touch, whereIs, writeCall = M.recordsOf, M.serve, M.touch, M.whereIs, M.writeCall
local WRITES = M.WRITES

-- The index of a route is of another type: a hand or another program was there. It is kept as unreadable as long as it
-- stays so, and the route is looked at again after a while, so that its clock does not ring all the time.
local DAMAGED_MS = 60000

local function passOver(c, route, key, why)
  local ref = "index:" .. key
  if call("HEXISTS", c.k.unreadable, ref) == 0 then keepUnreadable(c, ref, "", why, key) end
  call("ZADD", c.k.due, num(c.now + DAMAGED_MS), route)
  return 0
end

-- Promotes the longest due jobs of one route. Deletes an entry whose job is not scheduled there, and corrects an entry
-- whose time is not its job's. Answers how many were promoted.
local function promoteRoute(c, route, most)
  local key, promoted = c.k.dueOf .. route, 0
  local handles = redis.pcall("ZRANGEBYSCORE", key, "-inf", c.at, "LIMIT", 0, most)
  if handles.err then return passOver(c, route, key, handles.err) end
  c.met = { route = route, state = SCHEDULED }
  loadJobs(c, handles)
  c.met = nil
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    if not job or whereIs(c.k, job) ~= key then
      push(c.zrem, key, h)
    elseif tonumber(job.dueAt) > c.now then
      push2(c.zadd, key, job.dueAt, h)
    else
      touch(c, job)
      promote(job)
      emit(c, job, PROMOTED)
      promoted = promoted + 1
    end
  end
  noteHead(c, key)
  return promoted
end

serve("promote", WRITES, function(c)
  local most, k, count = nextNumber(c), c.k, 0
  local share = max(1, floor(most / max(1, call("ZCOUNT", k.due, "-inf", c.at))))
  for _, route in ipairs(call("ZRANGEBYSCORE", k.due, "-inf", c.at, "LIMIT", 0, most)) do
    count = count + promoteRoute(c, route, share)
  end
  c.hasPromoted = count > 0
  local hints = writeCall(c)
  local head = firstScore(k.due)
  return { c.at, hints, count, head and head <= c.now and 1 or 0, nextClock(c) }
end)

local LOOK_MAX, LOOKED_AT_ONCE = 2000, 200

-- Whether the job of an index entry belongs there, at the time of the entry.
local function isPlaced(c, job, key, score)
  if not job then return false end
  local own, at, clock = whereIs(c.k, job)
  if key == c.k.clock then return clock ~= "" and tonumber(clock) == tonumber(score) end
  return own == key and tonumber(at) == tonumber(score)
end

-- Jobs of one index, after the cursor and in order, whose clock is due. Stops at wanted matches or LOOK_MAX entries,
-- and then returns the cursor.
local function dueJobsOf(c, key, clock, wanted, fromScore, fromHandle, out)
  local at, looked, matched = 0, 0, 0
  local from = fromScore == "" and "-inf" or fromScore
  while true do
    local found = call("ZRANGEBYSCORE", key, from, c.at, "WITHSCORES", "LIMIT", at, LOOKED_AT_ONCE)
    local handles, scores = {}, {}
    for i = 1, #found, 2 do
      local h, score = found[i], num(tonumber(found[i + 1]))
      if score ~= fromScore or h > fromHandle then
        handles[#handles + 1] = h
        scores[#scores + 1] = score
      end
    end
    at = at + #found / 2
    loadJobs(c, handles)
    for i, h in ipairs(handles) do
      looked = looked + 1
      local job = c.jobs[h]
      if not isPlaced(c, job, key, scores[i]) then
        c.unreadable[#c.unreadable + 1] = h
      elseif hasClockRung(c, job, clock) then
        out[#out + 1] = { score = scores[i], h = h }
        matched = matched + 1
      end
      if matched == wanted or looked == LOOK_MAX then return { score = scores[i], h = h } end
    end
    if #found < LOOKED_AT_ONCE * 2 then return nil end
  end
end

local function isEarlier(a, b)
  if a.score ~= b.score then return tonumber(a.score) < tonumber(b.score) end
  return a.h < b.h
end

-- Which indexes have jobs with this clock: running ones have no time to live, waiting ones no lease and no attempt.
local function indexesOf(k, clock)
  if clock == "ttl" then return { k.clock } end
  if clock == "wake" then return { k.wake } end
  if clock == "deadline" then return { k.lease, k.clock, k.wake } end
  return { k.lease }
end

serve("read_due", READS, function(c)
  local clock, wanted, fromScore, fromHandle = nextArg(c), nextNumber(c), nextArg(c), nextArg(c)
  local found, stop = {}, nil
  for _, key in ipairs(indexesOf(c.k, clock)) do
    local stopped = dueJobsOf(c, key, clock, wanted + 1, fromScore, fromHandle, found)
    if stopped and (not stop or isEarlier(stopped, stop)) then stop = stopped end
  end
  table.sort(found, isEarlier)
  local handles, last = {}, nil
  for _, entry in ipairs(found) do
    if #handles == wanted or (stop and isEarlier(stop, entry)) then break end
    last = entry
    handles[#handles + 1] = entry.h
  end
  local cursor = stop
  if #handles == wanted then cursor = (stop or #found > wanted) and last or nil end
  local score, h = cursor and cursor.score or "", cursor and cursor.h or ""
  return { c.at, nextClock(c), score, h, recordsOf(c, handles), c.unreadable }
end)

end)
