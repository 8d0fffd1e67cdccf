/**
 * Retention: what has been kept long enough goes, a bounded piece per call, and nothing goes in any other way. Finished jobs stand in one list per
 * outcome and minute. A list is walked from its head, and who must stay goes to its tail; an entry whose job has been replayed or is gone
 * is only dropped. The newest feed record always stays.
 *
 *  prune_history   status, all (1) or one queue (0), queue, older than, max, minute, left there, excepted queues -> removed, minute, left ("" at the end)
 *  prune_kept, prune_expired   max -> removed, more
 *  prune_feed      older than, max -> removed, more
 */
export const pruneLua = String.raw`
local ENDED = "^(.)[^\31]*\31([^\31]*)\31[^\31]*\31[^\31]*\31([^\31]*)\31([^\31]*)\31${String.raw`[^\31]*\31`.repeat(12)}([^\31]*)\31([^\31]*)\31"

local function dropPlain(c, h, id, route, status)
  c.goneSpecs[#c.goneSpecs + 1] = h
  c.goneStates[#c.goneStates + 1] = h
  c.goneIds[#c.goneIds + 1] = id
  if isBad(status) then push(c.zrem, c.k.bad .. status, h) end
  count(c, route, status, -1)
  leavePage(c, h)
end

-- Queues whose history is meant, by route.
local function meantRoutes(c, isAll, queue, excepted)
  local meant = {}
  for number, route in ipairs(call("LRANGE", c.k.route, 0, -1)) do
    local q = match(route, "^[^\31]*")
    if isAll then meant[num(number)] = not excepted[q] else meant[num(number)] = q == queue end
  end
  return meant
end

redis.register_function({ function_name = "mr1_prune_history", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local status, isAll, queue, before, max = nextArg(c), nextArg(c) == "1", nextArg(c), c.now - nextArg(c), tonumber(nextArg(c))
  local minute, left, excepted = nextArg(c), nextArg(c), {}
  for i = c.i, #args do excepted[args[i]] = true end
  local meant, removed, looked, lookMax = meantRoutes(c, isAll, queue, excepted), 0, 0, math.max(1000, max * 4)
  local minutes = c.k.ends .. status
  while removed < max and looked < lookMax do
    if left == "" then
      local from = minute == "" and "-inf" or "(" .. minute
      minute = call("ZRANGEBYSCORE", minutes, from, num(floor(before / MINUTE)), "LIMIT", 0, 1)[1]
      if not minute then break end
      left = call("LLEN", c.k.ended .. status .. ":" .. minute)
    end
    left = tonumber(left)
    local list = c.k.ended .. status .. ":" .. minute
    local handles = call("LRANGE", list, 0, min(left, 250, lookMax - looked) - 1)
    local states, stay, seen, done = fetch("HMGET", c.k.state, handles), {}, {}, 0
    for i, h in ipairs(handles) do
      if removed == max then break end
      done = i
      local now, id, flags, route, ended, keep
      if states[i] and not seen[h] then now, id, flags, route, ended, keep = match(states[i], ENDED) end
      if now == status and keep == "" and num(floor(ended / MINUTE)) == minute then
        seen[h] = true
        if meant[route] and tonumber(ended) <= before then
          removed = removed + 1
          if flags == "p" then dropPlain(c, h, id, route, status)
          else
            local job = jobOf(c, h)
            if job then dropJob(c, job) end
          end
        else stay[#stay + 1] = h end
      end
    end
    looked, left = looked + done, left - done
    if done > 0 then call("LTRIM", list, done, -1) end
    many("RPUSH", list, stay)
    if left <= 0 or #handles == 0 then
      if call("EXISTS", list) == 0 then call("ZREM", minutes, minute) end
      left = ""
    end
  end
  finish(c)
  return { removed, minute or "", minute and tostring(left) or "" }
end })

redis.register_function({ function_name = "mr1_prune_kept", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local max = tonumber(nextArg(c))
  local handles = call("ZRANGEBYSCORE", c.k.keep, "-inf", c.at, "LIMIT", 0, max)
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    if c.jobs[h] then dropJob(c, c.jobs[h]) else push(c.zrem, c.k.keep, h) end
  end
  finish(c)
  return { #handles, #handles == max and 1 or 0 }
end })

redis.register_function({ function_name = "mr1_prune_expired", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local max = tonumber(nextArg(c))
  local keysOver = call("ZRANGEBYSCORE", c.k.held, "-inf", c.at, "LIMIT", 0, max)
  for _, key in ipairs(keysOver) do setHolder(c, key, false) end
  local docsOver = {}
  if #keysOver < max then docsOver = call("ZRANGEBYSCORE", c.k.docttl, "-inf", c.at, "LIMIT", 0, max - #keysOver) end
  for _, field in ipairs(docsOver) do
    c.docs[field] = false
    c.docsDirty[field] = true
  end
  finish(c)
  local removed = #keysOver + #docsOver
  return { removed, removed == max and 1 or 0 }
end })

redis.register_function({ function_name = "mr1_prune_feed", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local before, max = c.now - nextArg(c), tonumber(nextArg(c))
  local removed, last, newest = 0, nil, call("XREVRANGE", c.k.feed, "+", "-", "COUNT", 1)[1]
  for _, entry in ipairs(call("XRANGE", c.k.feed, "-", "+", "COUNT", max)) do
    local number = tonumber(match(entry[1], "^%d+"))
    -- After an entry the next number is far above the newest one, which tells the last seq and stays.
    if entry[1] == newest[1] or tonumber(entry[2][2]) > before then break end
    removed, last = removed + 1, number
  end
  if last then call("XTRIM", c.k.feed, "MINID", "=", num(last + 1) .. "-0") end
  return { removed, removed == max and 1 or 0 }
end })
`;
