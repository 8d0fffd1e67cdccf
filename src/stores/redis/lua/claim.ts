/**
 * claim (R6): takes ready jobs in the order of (rank, seq) from the offered routes, never one of whose clocks has rung. A plain job that nobody
 * has touched yet gets its first state by joining three texts; others are read, changed and written.
 *
 *  args     owner, lease, known routes (mark:count), then per offer: max, number of routes, routes
 *  answer   now, next clock, routes, filled offers, the first fence, per job: handle and spec, and of all but first claims of plain jobs:
 *           place and state
 */
import { eventCodes } from "../../../model/event-kind.ts";

export const claimLua = String.raw`
local SKIP_MAX = 10000
-- Up to so many, one command takes them out; the scores that come with each cost more than a second command for many.
local POP_MAX = 16
local CLAIMED = "${eventCodes.claimed}"

-- The next ready jobs of a route behind those looked at before: members and, on request, scores. Jobs whose clock has rung are passed over.
local function look(c, source, wanted, hasScores)
  if not hasScores and not c.hasRung then
    if wanted > POP_MAX then return call("ZRANGE", source.key, 0, wanted - 1) end
    local popped, members = call("ZPOPMIN", source.key, wanted), {}
    for i = 1, #popped, 2 do members[#members + 1] = popped[i] end
    source.isGone = true
    return members
  end
  local members, scores = {}, {}
  while #members < wanted and not source.isEmpty do
    local want = wanted - #members
    local found
    if hasScores then found = call("ZRANGE", source.key, source.at, source.at + want - 1, "WITHSCORES")
    else found = call("ZRANGE", source.key, source.at, source.at + want - 1) end
    local step = hasScores and 2 or 1
    local got = #found / step
    if got < want then source.isEmpty = true end
    source.at = source.at + got
    local clocks
    if c.hasRung and got > 0 then
      local only = found
      if hasScores then
        only = {}
        for i = 1, #found, 2 do only[#only + 1] = found[i] end
      end
      clocks = fetch("ZMSCORE", c.k.clock, only)
    end
    for i = 1, got do
      local clock = clocks and clocks[i]
      if clock and tonumber(clock) <= c.now then source.skipped = source.skipped + 1
      else
        members[#members + 1] = found[(i - 1) * step + 1]
        if hasScores then scores[#scores + 1] = tonumber(found[i * step]) end
      end
    end
    if source.skipped > SKIP_MAX then source.isEmpty = true end
  end
  return members, scores
end

local function sourceOf(c, route) return { key = c.k.ready .. route, route = route, at = 0, skipped = 0, taken = {} } end

local function isBefore(a, b)
  local x, y = a.scores[a.head], b.scores[b.head]
  if x ~= y then return x < y end
  return a.members[a.head] < b.members[b.head]
end

-- Merges several routes by their heads, which are kept sorted.
local function takeMerged(c, routes, wanted)
  local heads, all, batch = {}, {}, math.ceil(2 * wanted / #routes) + 8
  local function refill(source)
    source.members, source.scores = look(c, source, batch, true)
    source.head = 1
    return #source.members > 0
  end
  local function settle(i)
    while heads[i + 1] and isBefore(heads[i + 1], heads[i]) do
      heads[i], heads[i + 1] = heads[i + 1], heads[i]
      i = i + 1
    end
  end
  for _, route in ipairs(routes) do
    local source = sourceOf(c, route)
    all[#all + 1] = source
    if refill(source) then heads[#heads + 1] = source end
  end
  table.sort(heads, isBefore)
  local members, of, n = {}, {}, 0
  while n < wanted and heads[1] do
    local source = heads[1]
    local h = source.members[source.head]
    n = n + 1
    members[n], of[n] = h, source.route
    source.taken[#source.taken + 1] = h
    source.head = source.head + 1
    if source.head <= #source.members or refill(source) then settle(1)
    else table.remove(heads, 1) end
  end
  return members, of, all
end

local function remove(source)
  local n = #source.taken
  if n == 0 or source.isGone then return end
  if source.skipped == 0 then call("ZREMRANGEBYRANK", source.key, 0, n - 1)
  else many("ZREM", source.key, source.taken) end
end

local function leaseJob(c, job, owner, ends)
  touch(c, job)
  local fence = tonumber(job.fence)
  if fence < c.fence then fence = c.fence end
  job.fence = num(fence + 1)
  job.attempt = job.attempt + job.counts
  job.counts, job.owner, job.claimed, job.started, job.lease, job.ends, job.ttl = "1", owner, c.at, "", ends, "", ""
  freeKey(c, job, "s")
  move(c, job, RUNNING, CLAIMED)
end

-- A plain job's first state behind its id, and its event before it: the same for all of a route.
local function firstOf(c, route, owner, ends)
  return concat({ "", "2", "", "p", route, "1", "1", "0", "", "", "", "", owner, c.at, "", ends, "", "", "", "", "", "", "" }, US),
    concat({ CLAIMED, "2", route, RUNNING, "1", "" }, US)
end

local function idOf(spec) return sub(spec, 3, find(spec, US, 3, true) - 1) end

-- One plain job for the first time, the usual claim on an idle queue, written without the tables of a call. Answers its spec, or nothing when it is
-- not such a job.
local function leaseOne(c, h, route, owner, ends)
  local k, spec = c.k, call("HGET", c.k.spec, h)
  if not spec or byte(spec) ~= 112 or call("HEXISTS", k.state, h) == 1 then return nil end
  local id, rest, event = idOf(spec), firstOf(c, route, owner, ends)
  call("HSET", k.state, h, RUNNING .. num(c.fence + 1) .. US .. id .. rest)
  call("ZADD", k.lease, ends, h)
  tellFeed(k, c.life, c.at, event .. US .. id)
  return spec
end

-- of: the route of each member, or one route for all. Appends handle and spec to out, and place and state to others.
local function lease(c, members, of, owner, ends, out, others)
  local specs, states = fetch("HMGET", c.k.spec, members), fetch("HMGET", c.k.state, members)
  local first, firsts, isMerged = RUNNING .. num(c.fence + 1) .. US, {}, type(of) == "table"
  local written, leases = c.states or {}, c.zadd[c.k.lease] or {}
  c.states, c.zadd[c.k.lease] = written, leases
  local n, z, o = #written, #leases, #out
  local f, route = nil, nil
  for i, h in ipairs(members) do
    local spec = specs[i]
    if spec then
      if not states[i] and byte(spec) == 112 then
        local own = isMerged and of[i] or of
        if own ~= route then
          route, f = own, firsts[own]
          if not f then
            local rest, key = firstOf(c, route, owner, ends)
            f = { rest = rest, group = c.groups[key] or newGroup(c, key, CLAIMED, RUNNING, "") }
            firsts[route] = f
          end
        end
        local id, g = idOf(spec), f.group
        written[n + 1], written[n + 2] = h, first .. id .. f.rest
        n = n + 2
        leases[z + 1], leases[z + 2] = ends, h
        z = z + 2
        g.n = g.n + 1
        g[g.n] = id
      else
        widen(c)
        local job = readJob(c.k, h, spec, states[i])
        leaseJob(c, job, owner, ends)
        others[#others + 1] = o / 2
        others[#others + 1] = stateOf(job)
      end
      out[o + 1], out[o + 2] = h, spec
      o = o + 2
    end
  end
end

-- The claim whose args begin at c.i.
local function claim(c)
  local args = c.args
  local owner, ends = nextArg(c), num(c.now + nextArg(c))
  local routes, isKnown = routesFor(c, nextArg(c))
  if not isKnown then return { c.at, nextClock(c), routes, 0, "0", {}, {} } end
  local out, others, filled, last = {}, {}, 0, #args
  c.hasRung = hasRung(c)
  while c.i <= last do
    local wanted, offered = tonumber(nextArg(c)), {}
    for r = 1, tonumber(nextArg(c)) do offered[r] = nextArg(c) end
    local members, of, sources
    if #offered == 1 then
      local source = sourceOf(c, offered[1])
      members, of, sources = look(c, source, wanted, false), offered[1], { source }
      source.taken = members
    else members, of, sources = takeMerged(c, offered, wanted) end
    if #members == wanted then filled = filled + 1 end
    for _, source in ipairs(sources) do remove(source) end
    local spec = #members == 1 and #offered == 1 and c.i > last and #out == 0 and leaseOne(c, members[1], of, owner, ends)
    if spec then out = { members[1], spec }
    elseif #members > 0 then lease(c, members, of, owner, ends, out, others) end
  end
  finish(c)
  return { c.at, nextClock(c), routes, filled, num(c.fence + 1), out, others }
end

redis.register_function("mr1_claim", function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  return claim(c)
end)
`;
