/**
 * Time passing: promotion of what is due (R5), and the reading of clocks that rang.
 *
 *  promote    max -> now, own hints, count, next clock
 *  read_due   clock by name, max, cursor (score and handle; "" and "" for the head)
 *             -> now, next clock, cursor score and handle ("" at the end), per job: handle, spec, state
 */
import type { LuaModule } from "./lua-module.ts";

export const dueLua: LuaModule = {
  exports: [],
  source: String.raw`
redis.register_function("mr1_promote", function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local handles = call("ZRANGEBYSCORE", c.k.due, "-inf", c.at, "LIMIT", 0, nextArg(c))
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    if job then
      touch(c, job)
      promote(job)
      tell(c, job, PROMOTED)
    else push(c.zrem, c.k.due, h) end
  end
  local hints = writeCall(c)
  return { c.at, hints, #handles, nextClock(c) }
end)

local LOOK_MAX, LOOKED_AT_ONCE = 2000, 200

-- Rung jobs of one index behind the cursor, in order; stops at wanted matches or LOOK_MAX entries and then tells where.
local function rungOf(c, key, clock, wanted, fromScore, fromHandle, out)
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
      if job and hasClockRung(c, job, clock) then
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
  if clock == "deadline" then return { k.lease, k.clock } end
  return { k.lease }
end

redis.register_function({ function_name = "mr1_read_due", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local clock, wanted, fromScore, fromHandle = nextArg(c), nextNumber(c), nextArg(c), nextArg(c)
  local found, stop = {}, nil
  for _, key in ipairs(indexesOf(c.k, clock)) do
    local stopped = rungOf(c, key, clock, wanted + 1, fromScore, fromHandle, found)
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
  return { c.at, nextClock(c), cursor and cursor.score or "", cursor and cursor.h or "", recordsOf(c, handles) }
end })
`,
};
