/**
 * Time passing: promotion of what is due (R5), and the reading of clocks that rang.
 *
 *  promote    max -> now, own hints, count, next clock
 *  read_due   clock (l, a, d or t), max, cursor (score and handle; "" and "" for the head)
 *             -> now, next clock, cursor score and handle ("" at the end), then per job: timer, handle, spec, state ("" without one)
 */
import { eventCodes } from "../../../model/event-kind.ts";

export const dueLua = String.raw`
redis.register_function("mr1_promote", function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local handles = call("ZRANGEBYSCORE", c.k.due, "-inf", c.at, "LIMIT", 0, nextArg(c))
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    if job then
      touch(c, job)
      move(c, job, READY, "${eventCodes.promoted}")
    else push(c.zrem, c.k.due, h) end
  end
  local hints = finish(c)
  return { c.at, hints, #handles, nextClock(c) }
end)

local LOOK_MAX = 2000

-- Rung jobs of one index behind the cursor, in order; stops at wanted matches or LOOK_MAX entries and then tells where.
local function rungOf(c, key, clock, wanted, fromScore, fromHandle, out)
  local at, looked = 0, 0
  local from = fromScore == "" and "-inf" or fromScore
  local matched = 0
  while true do
    local found = call("ZRANGEBYSCORE", key, from, c.at, "WITHSCORES", "LIMIT", at, 200)
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
    if #found < 400 then return nil end
  end
end

local function isEarlier(a, b)
  if a.score ~= b.score then return tonumber(a.score) < tonumber(b.score) end
  return a.h < b.h
end

redis.register_function({ function_name = "mr1_read_due", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local clock, wanted, fromScore, fromHandle = nextArg(c), tonumber(nextArg(c)), nextArg(c), nextArg(c)
  local found, stop = {}, nil
  for _, key in ipairs({ clock ~= "t" and c.k.lease or false, (clock == "d" or clock == "t") and c.k.clock or false }) do
    local stopped = key and rungOf(c, key, clock, wanted + 1, fromScore, fromHandle, found)
    if stopped and (not stop or isEarlier(stopped, stop)) then stop = stopped end
  end
  table.sort(found, isEarlier)
  local out, last = {}, nil
  for _, entry in ipairs(found) do
    if #out == wanted * 4 then break end
    if stop and isEarlier(stop, entry) then break end
    last = entry
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = entry.score, entry.h, c.jobs[entry.h].spec, call("HGET", c.k.state, entry.h) or ""
  end
  local cursor = stop
  if #out == wanted * 4 then cursor = (stop or #found > wanted) and last or nil end
  return { c.at, nextClock(c), cursor and cursor.score or "", cursor and cursor.h or "", out }
end })
`;
