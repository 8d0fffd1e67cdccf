/**
 * Retention: what has been kept long enough goes, a bounded piece per call, and nothing goes in any other way. Finished
 * jobs stand in one list per outcome and minute. A list is walked from its head, and who must stay goes to its tail; an
 * entry whose job has been replayed or is gone is only taken out. The newest feed record always stays.
 *
 *  prune_history   state, all (1) or one queue (0), queue, older than, max, minute, left there, excepted queues
 *                  -> removed, minute, left ("" at the end)
 *  prune_kept, prune_results, prune_expired   max -> removed, more
 *  prune_feed      older than, max -> removed, more
 */
import type { LuaModule } from "./lua-module.ts";
import { pickLua } from "./packing.ts";

export const pruneLua: LuaModule = {
  exports: [],
  source: String.raw`
local LOOKED_AT_ONCE = 250
-- A job with one of these is listed elsewhere too, so its spec is needed to forget it.
local LISTED = "[" .. HAS_KEY .. HAS_TAGS .. HAS_LINES .. "]"

local function forgetPlain(c, h, id, route, state)
  c.goneSpecs[#c.goneSpecs + 1] = h
  c.goneStates[#c.goneStates + 1] = h
  c.goneIds[#c.goneIds + 1] = id
  if isBad(state) then push(c.zrem, c.k.bad .. state, h) end
  count(c, route, state, -1)
  leavePage(c, h)
end

-- Routes whose history is meant: those of one queue, or of all but the excepted ones.
local function meantRoutes(c, isAll, queue, excepted)
  local meant = {}
  for route, q in eachRoute(c) do
    if isAll then meant[route] = not excepted[q] else meant[route] = q == queue end
  end
  return meant
end

-- One piece of a list. Answers how many entries were looked at and how many jobs removed; who stays is at the tail.
local function pruneList(c, asked, minute, list, most, room)
  local handles = call("LRANGE", list, 0, most - 1)
  local states, stay, seen, looked, removed = fetch("HMGET", c.k.state, handles), {}, {}, 0, 0
  for i, h in ipairs(handles) do
    if removed == room then break end
    looked = i
    if states[i] and not seen[h] then
      local ${pickLua("states[i]", ["state", "id", "flags", "route", "endedAt", "keepUntil"])}
      -- Looked at closely, it is set aside.
      if not state or not tonumber(endedAt) and endedAt ~= "" then jobOf(c, h)
      elseif state == asked.state and keepUntil == "" and num(floor(endedAt / MINUTE_MS)) == minute then
        seen[h] = true
        if not asked.routes[route] or tonumber(endedAt) > asked.before then stay[#stay + 1] = h
        else
          removed = removed + 1
          local isListed = match(flags, LISTED)
          local job = isListed and jobOf(c, h)
          if job then forget(c, job) elseif not isListed then forgetPlain(c, h, id, route, state) end
        end
      end
    end
  end
  if looked > 0 then call("LTRIM", list, looked, -1) end
  many("RPUSH", list, stay)
  return looked, removed
end

redis.register_function({ function_name = "mr1_prune_history", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local asked, isAll, queue = { state = nextArg(c) }, nextFlag(c), nextArg(c)
  asked.before = c.now - nextArg(c)
  local most, minute, left, excepted = nextNumber(c), nextArg(c), nextArg(c), {}
  for i = c.i, #args do excepted[args[i]] = true end
  asked.routes = meantRoutes(c, isAll, queue, excepted)
  local minutes, removed, looked, lookMax = c.k.ends .. asked.state, 0, 0, max(1000, most * 4)
  while removed < most and looked < lookMax do
    if left == "" then
      local from, to = minute == "" and "-inf" or "(" .. minute, num(floor(asked.before / MINUTE_MS))
      minute = call("ZRANGEBYSCORE", minutes, from, to, "LIMIT", 0, 1)[1]
      if not minute then break end
    end
    local list = c.k.ended .. asked.state .. ":" .. minute
    left = left == "" and call("LLEN", list) or tonumber(left)
    local seen, gone = pruneList(c, asked, minute, list, min(left, LOOKED_AT_ONCE, lookMax - looked), most - removed)
    looked, removed, left = looked + seen, removed + gone, left - seen
    if left <= 0 or seen == 0 then
      if call("EXISTS", list) == 0 then call("ZREM", minutes, minute) end
      left = ""
    end
  end
  writeCall(c)
  return { removed, minute or "", minute and tostring(left) or "" }
end })

-- Acts on the finished jobs of an index whose time, a field of theirs, is over; an entry that does not belong there is
-- taken out.
local function pruneTimed(c, key, field, act)
  local most, removed = nextNumber(c), 0
  local handles = call("ZRANGEBYSCORE", key, "-inf", c.at, "LIMIT", 0, most)
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    if job and isTerminal(job.state) and job[field] ~= "" and tonumber(job[field]) <= c.now then
      removed = removed + 1
      act(c, job)
    else push(c.zrem, key, h) end
  end
  writeCall(c)
  return { removed, #handles == most and 1 or 0 }
end

redis.register_function({ function_name = "mr1_prune_kept", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  return refused or pruneTimed(c, c.k.keep, "keepUntil", forget)
end })

-- The results alone; their jobs stay.
redis.register_function({ function_name = "mr1_prune_results", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  return refused or pruneTimed(c, c.k.results, "resultUntil", function(_, job)
    touch(c, job)
    job.result, job.resultUntil = "", ""
  end)
end })

redis.register_function({ function_name = "mr1_prune_expired", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local most = nextNumber(c)
  local keysOver = call("ZRANGEBYSCORE", c.k.held, "-inf", c.at, "LIMIT", 0, most)
  for _, key in ipairs(keysOver) do setHolder(c, key, false) end
  local docsOver = {}
  if #keysOver < most then docsOver = call("ZRANGEBYSCORE", c.k.docttl, "-inf", c.at, "LIMIT", 0, most - #keysOver) end
  for _, field in ipairs(docsOver) do dropDoc(c, field) end
  writeCall(c)
  local removed = #keysOver + #docsOver
  return { removed, removed == most and 1 or 0 }
end })

redis.register_function({ function_name = "mr1_prune_feed", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local before, most = c.now - nextArg(c), nextNumber(c)
  local removed, last, newest = 0, nil, call("XREVRANGE", c.k.feed, "+", "-", "COUNT", 1)[1]
  for _, entry in ipairs(call("XRANGE", c.k.feed, "-", "+", "COUNT", most)) do
    local number = tonumber(match(entry[1], "^%d+"))
    -- After an entry the next number is far above the newest one, which tells the last seq and stays.
    if entry[1] == newest[1] or (tonumber(entry[2][2]) or 0) > before then break end
    removed, last = removed + 1, number
  end
  if last then call("XTRIM", c.k.feed, "MINID", "=", num(last + 1) .. "-0") end
  return { removed, removed == most and 1 or 0 }
end })
`,
};
