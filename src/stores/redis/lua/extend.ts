/**
 * extend and record: what a running attempt writes while it runs, under its fence, without an event. A lease is never made shorter.
 *
 *  extend   owner, lease, wants others, then per lease: handle, fence US id US, started ago ("" leaves it), attempt ends in ("" leaves, - none)
 *  answer   now, own hints, answers, and of other running jobs of the owner: handle and spec, then place and state
 *  record   per write: handle, fence US id US, progress given, progress, lines, those
 */
import { storeLimits } from "../../../store/limits.ts";

const linesMax = storeLimits.logLinesPerJobMax;
const droppedLine = `Further log lines were dropped: a job keeps at most ${linesMax}.`;

export const extendLua = String.raw`
local LINES_MAX, DROPPED = ${linesMax}, "${droppedLine}"

-- The job while this lease is the current one, else nothing and why not.
local function leased(c, h, prefix)
  local fence, id = unpack(split(prefix, US))
  local job = jobOf(c, h)
  if job and job.id == id then
    if job.status == RUNNING and job.fence == fence then return job end
    return nil, "stale"
  end
  return nil, handleById(c, id) and "stale" or "gone"
end

-- What was claimed under an earlier entry is left to the reclaim: its owner may have run and settled it, and the settle was lost with the server.
local function othersOf(c, owner, named)
  local out, others, found, at = {}, {}, {}, 0
  while true do
    local members = call("ZRANGE", c.k.lease, at, at + 499)
    if #members == 0 then break end
    at = at + #members
    local states = fetch("HMGET", c.k.state, members)
    for i, h in ipairs(members) do
      if states[i] then
        local fence, id, rest = match(states[i], "^.([^\31]*)\31([^\31]*)\31(.*)$")
        if select(12, match(rest, REST)) == owner and not named[fence .. US .. id .. US] and tonumber(fence) > c.fence then found[#found + 1] = h end
      end
    end
  end
  table.sort(found)
  local specs, states = fetch("HMGET", c.k.spec, found), fetch("HMGET", c.k.state, found)
  for i, h in ipairs(found) do
    local n = #out
    out[n + 1], out[n + 2] = h, specs[i]
    others[n + 1], others[n + 2] = i - 1, states[i]
  end
  return out, others
end

redis.register_function({ function_name = "mr1_extend", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local owner, ends, wantsOthers = nextArg(c), c.now + nextArg(c), nextArg(c) == "1"
  local total, handles, answers, named = (#args - c.i + 1) / 4, {}, {}, {}
  for i = 1, total do handles[i] = args[c.i + (i - 1) * 4] end
  loadJobs(c, handles)
  for i = 1, total do
    local h, prefix, ago, endsIn = nextArg(c), nextArg(c), nextArg(c), nextArg(c)
    named[prefix] = true
    local job, why = leased(c, h, prefix)
    if job then
      touch(c, job)
      if ends > tonumber(job.lease) then job.lease = num(ends) end
      if ago ~= "" then job.started = num(c.now - ago) end
      if endsIn == "-" then job.ends = "" elseif endsIn ~= "" then job.ends = num(c.now + endsIn) end
      why = job.cancel == "1" and "cancel-asked" or "ok"
    end
    answers[i] = why
  end
  local hints = finish(c)
  local out, others = {}, {}
  if wantsOthers then out, others = othersOf(c, owner, named) end
  return { c.at, hints, answers, out, others }
end })

local function addLines(c, job, lines)
  local key = c.k.trail .. job.h
  local room = LINES_MAX - call("LLEN", key)
  local kept = {}
  for i = 1, min(room, #lines) do kept[i] = c.at .. US .. lines[i] end
  many("RPUSH", key, kept)
  if #lines > room then call("LSET", key, -1, c.at .. US .. DROPPED) end
end

redis.register_function("mr1_record", function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local answers, last = {}, #args
  while c.i <= last do
    local h, prefix, hasProgress, progress, total = nextArg(c), nextArg(c), nextArg(c) == "1", nextArg(c), tonumber(nextArg(c))
    local lines = {}
    for i = 1, total do lines[i] = nextArg(c) end
    local job, why = leased(c, h, prefix)
    if job then
      if hasProgress or total > 0 then touch(c, job) end
      if hasProgress then job.progress = progress end
      if total > 0 then
        job.hasLines = true
        addLines(c, job, lines)
      end
    end
    answers[#answers + 1] = why or "ok"
  end
  finish(c)
  return answers
end)
`;
