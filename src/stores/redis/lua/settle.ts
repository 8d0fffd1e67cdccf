/**
 * settle: what a running attempt writes at its end, under its fence. Applied at most once and only with the current fence; a repeat with the
 * same fence answers already. A plain ending (no key, no effects, kept) is one comparison and one joining of texts, shared by all
 * endings of the call that look alike; everything else goes through the job's tables.
 *
 *  args     routes as in submit, number of settles, their handles, then runs: how many, next, whether results and logs come (1), and per settle
 *           fence US id US [result, log]; and for a next that begins with *: late, number of jobs and documents, and those
 *  next     a finish is to US event US keep US reason; the others as next.ts packs them
 *  answer   now, own hints, then place and answer of each settle that was not applied
 */
import { fields } from "./base.ts";

export const settleLua = String.raw`
local REST = "^${fields(21)}([^\31]*)$"

-- The end of a plain state, made once for all that look alike: what stands before the result, and the old log and progress.
local function endingOf(c, memo, rest, f)
  local rev, _, flags, route, attempt, counts, cancel, due, rank, deadline, ttl, owner, claimed, started, _, _, _, _, _, _, log, progress = match(rest, REST)
  local e = { isPlain = not find(flags, "u", 1, true), log = log, progress = progress, route = route }
  if e.isPlain then
    rev = tonumber(rev) + 1
    e.head = concat({ rev, "=", flags, route, attempt, counts, cancel, due, rank, deadline, ttl, owner, claimed, started, "", "", c.at, f.keep, f.reason, "" }, US)
    e.extra = f.reason == "" and "" or "s" .. f.reason
    local key = concat({ f.kind, rev, route, f.to, attempt, e.extra }, US)
    e.group = c.groups[key] or newGroup(c, key, f.kind, f.to, e.extra)
    e.jobs = 0
  end
  memo[rest] = e
  return e
end

-- How a finish ends, made once for all settles with the same next.
local function finishOf(c, next)
  local to, kind, keep, reason = unpack(split(next, US))
  local f = { to = to, kind = kind, keep = after(c, keep), reason = reason, isPlain = keep ~= "0", memo = {}, handles = {}, at = 0 }
  return f
end

local function refusalOf(c, h, id, fence)
  local present = handleById(c, id)
  if not present then return "gone" end
  if present ~= h then return "stale" end
  local job = jobOf(c, h)
  return job and fence ~= "" and job.settled == fence and "already" or "stale"
end

-- One settle by the job's tables. Answers a refusal or nothing.
local function settleOne(c, h, prefix, n, log, effects)
  local fence, id = unpack(split(prefix, US))
  local job = jobOf(c, h)
  if not job or job.id ~= id or job.status ~= RUNNING or job.fence ~= fence then return refusalOf(c, h, id, fence) end
  if job.cancel == "1" and (n[1] == "R" or n[1] == "S") then return "cancel-asked" end
  touch(c, job)
  if log ~= "" then job.log = log end
  job.settled = fence
  apply(c, job, n)
  if effects then return (submitUnit(c, false, effects.jobs, effects.docs)) end
  return nil
end

local function writeEndings(c, finishes)
  local k = c.k
  for _, f in pairs(finishes) do
    if #f.handles > 0 then
      many("ZREM", k.lease, f.handles)
      if f.keep == "" then appendEnded(k, f.to, num(floor(c.now / MINUTE)), f.handles)
      else
        for _, h in ipairs(f.handles) do push2(c.zadd, k.keep, f.keep, h) end
      end
      if isBad(f.to) then
        for _, h in ipairs(f.handles) do push2(c.zadd, k.bad .. f.to, seqOf(h), h) end
      end
      for _, e in pairs(f.memo) do
        if e.jobs and e.jobs > 0 then
          count(c, e.route, RUNNING, -e.jobs)
          count(c, e.route, f.to, e.jobs)
        end
      end
    end
  end
end

-- A plain ending; answers whether it was one.
local function endPlain(c, f, h, state, prefix, result, log, done)
  if not f.isPlain or not state or byte(state) ~= 51 or find(state, prefix, 2, true) ~= 2 then return false end
  if done[h] or (c.jobs and c.jobs[h] ~= nil) then return false end
  local rest = sub(state, #prefix + 2)
  local e = f.memo[rest] or endingOf(c, f.memo, rest, f)
  if not e.isPlain then return false end
  local states, g = c.states, e.group
  local n = c.statesAt
  local ended = f.to .. prefix .. e.head .. result .. US .. (log ~= "" and log or e.log) .. US .. e.progress
  states[n + 1], states[n + 2] = h, ended
  c.statesAt = n + 2
  done[h] = ended
  f.at = f.at + 1
  f.handles[f.at] = h
  e.jobs = e.jobs + 1
  g.n = g.n + 1
  g[g.n] = sub(prefix, find(prefix, US, 1, true) + 1, -2)
  return true
end

-- A single plain ending, written without the tables of a call. Answers the id, or nothing when it is not such an ending.
local function endOne(c, h, next, prefix, result, log)
  if byte(next) == 42 or byte(next) > 57 then return nil end
  local k, f, state = c.k, finishOf(c, next), call("HGET", c.k.state, h)
  if not f.isPlain or not state or byte(state) ~= 51 or find(state, prefix, 2, true) ~= 2 then return nil end
  local e = endingOf(c, f.memo, sub(state, #prefix + 2), f)
  if not e.isPlain then return nil end
  local id = sub(prefix, find(prefix, US, 1, true) + 1, -2)
  call("HSET", k.state, h, f.to .. prefix .. e.head .. result .. US .. (log ~= "" and log or e.log) .. US .. e.progress)
  call("ZREM", k.lease, h)
  if f.keep == "" then appendEnded(k, f.to, num(floor(c.now / MINUTE)), { h }) else call("ZADD", k.keep, f.keep, h) end
  if isBad(f.to) then call("ZADD", k.bad .. f.to, num(seqOf(h)), h) end
  call("HINCRBY", k.tally, e.route .. ":" .. f.to, "1")
  tellFeed(k, c.life, c.at, e.group[1] .. US .. id)
  call("PUBLISH", k.hint, c.sender .. US .. US .. RS .. id .. RS)
  return id
end

-- Any settle. Answers a refusal or nothing.
local function settleAny(c, h, prefix, next, result, log, done)
  widen(c)
  local effects, isLate
  if byte(next) == 42 then
    isLate = nextArg(c) == "1"
    effects = { jobs = tonumber(nextArg(c)), docs = tonumber(nextArg(c)) }
    next = sub(next, 2)
  end
  -- An ending of this call is not written yet, so its state is read from here.
  if done[h] and c.jobs[h] == nil then c.jobs[h] = readJob(c.k, h, call("HGET", c.k.spec, h), done[h]) end
  local parts, stop = split(next, US), c.i + (effects and effects.jobs * 3 + effects.docs * 5 or 0)
  if byte(next) <= 57 then parts[5] = result end
  local refusal = whole(c, isLate, function() return settleOne(c, h, prefix, parts, log, effects) end)
  c.i = stop
  return refusal
end

redis.register_function("mr1_settle", function(keys, args)
  local c, refused = begin(keys, args, true)
  if not c then return refused end
  local total, refusals, finishes, done = tonumber(nextArg(c)), {}, {}, {}
  if total == 1 then
    local i = c.i
    local id = endOne(c, args[i], args[i + 2], args[i + 4], args[i + 3] == "1" and args[i + 5] or "", args[i + 3] == "1" and args[i + 6] or "")
    if id then return { c.at, { "", "", id, "" }, refusals } end
    c.order, c.groups = {}, {}
  end
  local handles = slice(args, c.i, c.i + total - 1)
  c.i, c.states, c.statesAt = c.i + total, {}, 0
  local states, at = fetch("HMGET", c.k.state, handles), 0
  while at < total do
    local run, next, hasMore = tonumber(nextArg(c)), nextArg(c), nextArg(c) == "1"
    local f = byte(next) ~= 42 and byte(next) <= 57 and finishes[next]
    if f == nil then
      f = finishOf(c, next)
      finishes[next] = f
    end
    for _ = 1, run do
      at = at + 1
      local prefix, result, log = nextArg(c), "", ""
      if hasMore then result, log = nextArg(c), nextArg(c) end
      local h = handles[at]
      if not f or not endPlain(c, f, h, states[at], prefix, result, log, done) then
        local refusal = settleAny(c, h, prefix, next, result, log, done)
        if refusal then
          refusals[#refusals + 1] = at - 1
          refusals[#refusals + 1] = refusal
        end
      end
    end
  end
  writeEndings(c, finishes)
  return { c.at, finish(c), refusals }
end)
`;
