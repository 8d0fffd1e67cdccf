-- upkeep/prune
module(function()
local change, drop, dropDoc, eachRoute, fetch, FREES = M.change, M.drop, M.dropDoc, M.eachRoute, M.fetch, M.FREES
local isTerminal, jobOf, leave, loadJobs, many = M.isTerminal, M.jobOf, M.leave, M.loadJobs, M.many
local nextArg, nextFlag, nextNumber, num, push, serve = M.nextArg, M.nextFlag, M.nextNumber, M.num, M.push, M.serve
local touch, writeCall = M.touch, M.writeCall

local ENDED = "^" .. TAKE .. SKIP .. TAKE .. SKIP .. times(TAKE, 2) .. times(SKIP, 9)
  .. TAKE .. times(SKIP, 7) .. times(TAKE, 2) .. "([^\31]*)"
local LOOKED_AT_ONCE = 250
-- A job with one of these is listed in other indexes too, has a journal, or may be a flow, so all of it is needed to
-- delete it.
local LISTED = "[%d" .. HAS_KEY .. HAS_TAGS .. HAS_LINES .. HAS_FLOW .. "]"

local function meantRoutes(c, isAll, queue, excepted)
  local meant = {}
  for route, q in eachRoute(c) do
    if isAll then
      meant[route] = not excepted[q]
    else
      meant[route] = q == queue
    end
  end
  return meant
end

-- Removes a finished job without reading more of it than is needed.
local function pruneFinished(c, h, route, state, id, flags, resultUntil)
  local isListed = match(flags, LISTED)
  local job = isListed and jobOf(c, h)
  if job then
    drop(c, job)
  elseif not isListed then
    leave(c, h, { route = route, state = state, result = resultUntil ~= "" })
    push(c, "goneIds", id)
  end
end

-- One piece of a list. Answers how many entries were looked at and how many jobs pruned; those that stay are at the
-- tail.
local function pruneList(c, asked, minute, list, most, room)
  local handles = call("LRANGE", list, 0, most - 1)
  local states, stay, seen, looked, pruned = fetch("HMGET", c.k.state, handles), {}, {}, 0, 0
  for i, h in ipairs(handles) do
    if pruned == room then break end
    looked = i
    if states[i] and not seen[h] then
      local state, id, flags, route, keepsLane, endedAt, keepUntil, resultUntil = match(states[i], ENDED)
      -- Looked at closely, it is kept as unreadable.
      if not state or not tonumber(endedAt) and endedAt ~= "" then
        jobOf(c, h)
      elseif state == asked.state and keepUntil == "" and num(floor(endedAt / MINUTE_MS)) == minute then
        seen[h] = true
        local isKept = keepsLane == "1" or tonumber(endedAt) > asked.before
        if isKept or not asked.routes[route] then
          stay[#stay + 1] = h
        else
          pruned = pruned + 1
          pruneFinished(c, h, route, state, id, flags, resultUntil)
        end
      end
    end
  end
  if looked > 0 then call("LTRIM", list, looked, -1) end
  many("RPUSH", list, stay)
  return looked, pruned
end

serve("prune_history", FREES, function(c)
  local asked, isAll, queue = { state = nextArg(c) }, nextFlag(c), nextArg(c)
  asked.before = c.now - nextArg(c)
  local most, minute, left, excepted = nextNumber(c), nextArg(c), nextArg(c), {}
  for i = c.i, #c.args do
    excepted[c.args[i]] = true
  end
  asked.routes = meantRoutes(c, isAll, queue, excepted)
  local minutes, pruned, looked, lookMax = c.k.ends .. asked.state, 0, 0, max(1000, most * 4)
  while pruned < most and looked < lookMax do
    if left == "" then
      local from, to = minute == "" and "-inf" or "(" .. minute, num(floor(asked.before / MINUTE_MS))
      minute = call("ZRANGEBYSCORE", minutes, from, to, "LIMIT", 0, 1)[1]
      if not minute then break end
    end
    local list = c.k.ended .. asked.state .. ":" .. minute
    left = left == "" and call("LLEN", list) or tonumber(left)
    local seen, gone = pruneList(c, asked, minute, list, min(left, LOOKED_AT_ONCE, lookMax - looked), most - pruned)
    looked, pruned, left = looked + seen, pruned + gone, left - seen
    if left <= 0 or seen == 0 then
      if call("EXISTS", list) == 0 then call("ZREM", minutes, minute) end
      left = ""
    end
  end
  writeCall(c)
  return { pruned, minute or "", minute and tostring(left) or "" }
end)

-- One piece of a list, of which up to room jobs are too many: the first ended go first. Who is of another queue goes to
-- the tail; one that may go but stays comes back to the head. Answers how many entries are done with, pruned, and
-- whether others may go.
local function pruneSurplusOf(c, asked, minute, list, most, room)
  local handles = call("LRANGE", list, 0, most - 1)
  local states, others, own, seen = fetch("HMGET", c.k.state, handles), {}, {}, {}
  for i, h in ipairs(handles) do
    if states[i] and not seen[h] then
      local state, id, flags, route, keepsLane, endedAt, keepUntil, resultUntil = match(states[i], ENDED)
      seen[h] = true
      if not state or not tonumber(endedAt) and endedAt ~= "" then
        jobOf(c, h)
      elseif state == asked.state and keepUntil == "" and num(floor(endedAt / MINUTE_MS)) == minute then
        if asked.routes[route] and keepsLane ~= "1" then
          own[#own + 1] = { h, route, state, id, flags, resultUntil, endedAt = tonumber(endedAt) }
        else
          others[#others + 1] = h
        end
      end
    end
  end
  table.sort(own, function(a, b)
    if a.endedAt ~= b.endedAt then return a.endedAt < b.endedAt end
    return a[1] < b[1]
  end)
  local pruned, back = min(#own, room), {}
  for i, job in ipairs(own) do
    if i <= pruned then
      pruneFinished(c, unpack(job))
    else
      back[#own - i + 1] = job[1]
    end
  end
  call("LTRIM", list, #handles, -1)
  many("RPUSH", list, others)
  many("LPUSH", list, back)
  return #handles - #back, pruned, #back > 0
end

serve("prune_surplus", FREES, function(c)
  local asked, queue, keep, most = { state = nextArg(c) }, nextArg(c), nextNumber(c), nextNumber(c)
  local minute, left, surplus, isFull = nextArg(c), nextArg(c), -keep, false
  asked.routes = meantRoutes(c, false, queue)
  for route, isMeant in pairs(asked.routes) do
    if isMeant then surplus = surplus + (tonumber(call("HGET", c.k.counts, route .. ":" .. asked.state)) or 0) end
  end
  local minutes, pruned, looked, lookMax = c.k.ends .. asked.state, 0, 0, max(1000, most * 4)
  while pruned < min(most, surplus) and looked < lookMax and not isFull do
    if left == "" then
      minute = call("ZRANGEBYSCORE", minutes, minute == "" and "-inf" or "(" .. minute, "+inf", "LIMIT", 0, 1)[1] or ""
      if minute == "" then break end
    end
    local list, done, gone = c.k.ended .. asked.state .. ":" .. minute, 0, 0
    left = left == "" and call("LLEN", list) or tonumber(left)
    done, gone, isFull = pruneSurplusOf(c, asked, minute, list, min(left, LOOKED_AT_ONCE), min(most, surplus) - pruned)
    looked, pruned, left = looked + done, pruned + gone, left - done
    if left <= 0 or (done == 0 and not isFull) then
      if call("EXISTS", list) == 0 then call("ZREM", minutes, minute) end
      left = ""
    end
  end
  writeCall(c)
  return { pruned, pruned < surplus and minute ~= "" and 1 or 0, minute, tostring(left) }
end)

-- prune answers how many it pruned and read. If it read the maximum, more may be left.
local function servePrune(name, prune)
  serve(name, FREES, function(c)
    local most = nextNumber(c)
    local pruned, looked = prune(c, most)
    writeCall(c)
    return { pruned, looked == most and 1 or 0 }
  end)
end

-- What is over by now, in an index by time.
local function overIn(c, index, most) return call("ZRANGEBYSCORE", index, "-inf", c.at, "LIMIT", 0, most) end

-- Acts on the finished jobs of an index whose time, a field of theirs, is over; an entry that does not belong there is
-- taken out.
local function pruneTimed(c, most, index, field, act)
  local handles, pruned = overIn(c, index, most), 0
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    if job and not job.isGone and isTerminal(job.state) and job[field] ~= "" and tonumber(job[field]) <= c.now then
      pruned = pruned + 1
      act(c, job)
    else
      push(c.zrem, index, h)
    end
  end
  return pruned, #handles
end

-- The results alone; their jobs stay.
local function dropResult(c, job)
  touch(c, job)
  job.result, job.resultUntil = "", ""
end

servePrune("prune_kept", function(c, most)
  local pruned, looked = pruneTimed(c, most, c.k.keep, "keepUntil", drop)
  if looked == most then return pruned, looked end
  local dropped, seen = pruneTimed(c, most - looked, c.k.results, "resultUntil", dropResult)
  return pruned + dropped, looked + seen
end)

servePrune("prune_expired", function(c, most)
  local keys = overIn(c, c.k.held, most)
  for _, key in ipairs(keys) do
    change(c, "uniq", key, false)
  end
  local docs = #keys < most and overIn(c, c.k.docttl, most - #keys) or {}
  for _, field in ipairs(docs) do
    dropDoc(c, field)
  end
  return #keys + #docs, #keys + #docs
end)

servePrune("prune_feed", function(c, most)
  local before, newest = c.now - nextArg(c), call("XREVRANGE", c.k.feed, "+", "-", "COUNT", 1)[1]
  local pruned, last = 0, nil
  for _, entry in ipairs(call("XRANGE", c.k.feed, "-", "+", "COUNT", most)) do
    -- After an entry the next number is far above the newest one, which has the last seq and stays.
    if entry[1] == newest[1] or (tonumber(entry[2][2]) or 0) > before then break end
    pruned, last = pruned + 1, tonumber(match(entry[1], "^%d+"))
  end
  if last then call("XTRIM", c.k.feed, "MINID", "=", num(last + 1) .. "-0") end
  return pruned, pruned
end)

end)
