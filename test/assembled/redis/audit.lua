-- upkeep/audit
module(function()
local count, eachRoute, entryOf, firstScore, FREES = M.count, M.eachRoute, M.entryOf, M.firstScore, M.FREES
local handleOf, isBad, isTerminal, jobOf, loadByIds = M.handleOf, M.isBad, M.isTerminal, M.jobOf, M.loadByIds
local loadJobs, many, nameUnreadable, nextArg = M.loadJobs, M.many, M.nameUnreadable, M.nextArg
local nextNumber, noteMove, num, readFields, seqOf = M.nextNumber, M.noteMove, M.num, M.readFields, M.seqOf
local serve, setHead, slice, tagsIn, whereIs = M.serve, M.setHead, M.slice, M.tagsIn, M.whereIs
local writeRecords = M.writeRecords

-- An entry of a sorted set is as it should be. Answers how many repairs that took.
local function ensure(key, score, h)
  local found = call("ZSCORE", key, h)
  if found and tonumber(found) == tonumber(score) then return 0 end
  return call("ZADD", key, "CH", score, h)
end

-- A job with a lane stands in its line while it is ready, and among those that keep their lanes while it does.
local function repairLine(c, job)
  local k, h = c.k, job.h
  if job.keepsLane == "1" then return ensure(k.keeping, seqOf(h), h) end
  if job.state ~= READY or call("ZSCORE", k.line, entryOf(job)) then return 0 end
  noteMove(c, h, nil, job)
  return 1
end

local function repairJob(c, job)
  local k, h, repaired = c.k, job.h, 0
  local key, score, clock = whereIs(k, job)
  if key then repaired = repaired + ensure(key, score, h) end
  if job.state == SUSPENDED then c.life.hasWakes = true end
  if clock ~= "" then repaired = repaired + ensure(k.clock, clock, h) end
  if isBad(job.state) then repaired = repaired + ensure(k.bad .. job.state, seqOf(h), h) end
  for _, tag in ipairs(tagsIn(job.tags)) do
    repaired = repaired + ensure(k.tag .. tag, seqOf(h), h)
  end
  if job.laneKey ~= "" then repaired = repaired + repairLine(c, job) end
  if call("HGET", k.ids, job.id) == h then return repaired end
  call("HSET", k.ids, job.id, h)
  return repaired + 1
end

serve("repair", FREES, function(c)
  local handles = slice(c.args, c.i, #c.args)
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    local own, _, clock
    if job then
      repairJob(c, job)
      own, _, clock = whereIs(c.k, job)
    end
    if own ~= c.k.lease then call("ZREM", c.k.lease, h) end
    if own ~= c.k.wake then call("ZREM", c.k.wake, h) end
    if not clock or clock == "" then call("ZREM", c.k.clock, h) end
  end
  writeRecords(c)
  return c.kept or 0
end)

-- An id whose job is gone or was kept as unreadable is taken out. Answers how many repairs that took.
local function dropId(c, id, h)
  local isNamed = nameUnreadable(c, h, id)
  return call("HDEL", c.k.ids, id) == 1 and not isNamed and 1 or 0
end

serve("repair_ids", FREES, function(c)
  local ids = slice(c.args, c.i, #c.args)
  loadByIds(c, ids)
  for _, id in ipairs(ids) do
    local h = c.ids[id]
    if h and not c.jobs[h] then dropId(c, id, h) end
  end
  writeRecords(c)
end)

local function serveAudit(name, phase)
  serve(name, FREES, function(c)
    local checked, repaired, cursor = phase(c)
    writeRecords(c)
    return { checked, repaired, cursor, c.kept or 0 }
  end)
end

-- The handles after a seq, of one page, with their jobs in view; nothing at the end.
local function pageBehind(c, seq)
  local from, open, handles = floor((seq + 1) / PAGE), floor((c.seq + 1) / PAGE), {}
  local page = call("ZRANGEBYSCORE", c.k.pages, num(from), "+inf", "LIMIT", 0, 1)[1]
  if not page and from <= open then page = open end
  if not page then return nil end
  for at = max(seq + 1, page * PAGE), page * PAGE + PAGE - 1 do
    handles[#handles + 1] = handleOf(at)
  end
  loadJobs(c, handles)
  return handles
end

serveAudit("audit_jobs", function(c)
  local seq, most, checked, repaired = nextNumber(c), nextNumber(c), 0, 0
  while checked < most do
    local handles = pageBehind(c, seq)
    if not handles then return checked, repaired, "" end
    for _, h in ipairs(handles) do
      if checked == most then return checked, repaired, num(seq) end
      seq = seqOf(h)
      if c.jobs[h] then
        checked = checked + 1
        repaired = repaired + repairJob(c, c.jobs[h])
      end
    end
  end
  return checked, repaired, num(seq)
end)

-- The key of an index by its name in a cursor, and its route where it has one.
local function indexOf(k, index)
  if index == "lease" or index == "clock" or index == "wake" then return k[index], nil end
  local route = sub(index, 2)
  return (sub(index, 1, 1) == "d" and k.dueOf or k.ready) .. route, route
end

-- The index that is walked next.
local function indexBehind(c, index)
  if index == "lease" then return "clock" end
  if index == "clock" then return "wake" end
  local behind, best = index == "wake" and "" or index, nil
  for route in eachRoute(c) do
    for _, name in ipairs({ "d" .. route, "r" .. route }) do
      if name > behind and (not best or name < best) then best = name end
    end
  end
  return best
end

local function repairHead(k, route)
  local before = tonumber(call("ZSCORE", k.due, route) or "")
  if before == firstScore(k.dueOf .. route) then return 0 end
  setHead(k, route)
  return 1
end

serveAudit("audit_index", function(c)
  local index, rank, most = nextArg(c), nextNumber(c), nextNumber(c)
  local key, route = indexOf(c.k, index)
  local handles, stray = call("ZRANGE", key, rank, rank + most - 1), {}
  loadJobs(c, handles)
  local met = c.kept or 0
  for _, h in ipairs(handles) do
    local job, belongs = c.jobs[h], h == LONG_ENTRY
    if job then
      local own, _, clock = whereIs(c.k, job)
      belongs = own == key or (key == c.k.clock and clock ~= "")
    end
    if not belongs then stray[#stray + 1] = h end
  end
  -- Those that were kept as unreadable are out of it already.
  local repaired, left = #stray - met, #handles - #stray
  many("ZREM", key, stray)
  if route and key == c.k.dueOf .. route then repaired = repaired + repairHead(c.k, route) end
  if #handles == most then return #handles, repaired, index .. ":" .. num(rank + left) end
  local next = indexBehind(c, index)
  return #handles, repaired, next and next .. ":0" or ""
end)

-- A step through a hash. repair answers how many repairs an entry took.
local function auditHash(c, key, repair)
  local page, repaired = call("HSCAN", key, nextArg(c), "COUNT", nextArg(c)), 0
  local entries = page[2]
  for i = 1, #entries, 2 do
    repaired = repaired + repair(entries[i], entries[i + 1])
  end
  return #entries / 2, repaired, page[1] == "0" and "" or page[1]
end

serveAudit("audit_ids", function(c)
  return auditHash(c, c.k.ids, function(id, h)
    if call("HEXISTS", c.k.spec, h) == 1 or jobOf(c, h) then return 0 end
    return dropId(c, id, h)
  end)
end)

serveAudit("audit_keys", function(c)
  return auditHash(c, c.k.uniq, function(key, text)
    local holder = readFields(text, "holder")
    local job = holder.handle and jobOf(c, holder.handle)
    local isTimed = holder.heldUntil and tonumber(holder.heldUntil)
    local isStray = not isTimed and (not job or isTerminal(job.state))
    return isStray and call("HDEL", c.k.uniq, key) or 0
  end)
end)

-- Of all routes together: what is counted and what only its index counts (ready, running) are all jobs there are. Of
-- one route, at least the ready ones are left over; all others that are left are running. left: by route, its
-- jobs without those that are counted by state.
local function isRight(c, sums, left, total)
  local k, scheduled = c.k, 0
  for route in eachRoute(c) do
    scheduled = scheduled + call("ZCARD", k.dueOf .. route)
  end
  if (sums[TOTAL] or 0) ~= total or (sums[SCHEDULED] or 0) ~= scheduled then return false end
  -- Without the entry that keeps the index in its form (enter.lua.ts).
  local known = scheduled + call("ZCOUNT", k.lease, "-inf", "(+inf")
  for route in eachRoute(c) do
    local ready = call("ZCARD", k.ready .. route)
    if ready > (left[route] or 0) then return false end
    known = known + ready
  end
  for state, n in pairs(sums) do
    if state ~= TOTAL and state ~= SCHEDULED then
      if isBad(state) and n ~= call("ZCARD", k.bad .. state) then return false end
      known = known + n
    end
  end
  return known == total
end

local function recount(c)
  local counted, handles = { counts = {} }, pageBehind(c, 0)
  while handles do
    for _, job in pairs(c.jobs) do
      if job then count(counted, job.route, job.state, 1) end
    end
    c.jobs = {}
    handles = pageBehind(c, seqOf(handles[#handles]))
  end
  -- Whatever was kept as unreadable on the way is in none of the counts.
  c.counts = {}
  return counted.counts
end

serveAudit("audit_counts", function(c)
  local counted, sums, left, total, repaired = {}, {}, {}, call("HLEN", c.k.spec), 0
  local flat = call("HGETALL", c.k.counts)
  for i = 1, #flat, 2 do
    local route, state, n = sub(flat[i], 1, -3), sub(flat[i], -1), tonumber(flat[i + 1])
    counted[flat[i]] = n
    sums[state] = (sums[state] or 0) + n
    left[route] = (left[route] or 0) + (state == TOTAL and n or -n)
  end
  if isRight(c, sums, left, total) then return total, 0, "" end
  local real = recount(c)
  for field in pairs(counted) do
    real[field] = real[field] or 0
  end
  for field, n in pairs(real) do
    if n ~= counted[field] then
      repaired = repaired + 1
      call("HSET", c.k.counts, field, n)
    end
  end
  return total, repaired, ""
end)

M.serveAudit, M.auditHash = serveAudit, auditHash
end)
