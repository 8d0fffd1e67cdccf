/**
 * claim (R6): takes ready jobs in the order of (rank, seq) from the offered routes, never one of whose clocks has rung.
 * Plain jobs that nobody has touched yet get their first state as a set: one template for all of a route. Others are
 * read, changed and written.
 *
 *  args     owner, lease, then per offer: max, number of routes, routes
 *  answer   now, next clock, filled offers, a state as all first claims of plain jobs have it, per job: handle and
 *           spec, and of all but those: place and state
 */
import type { LuaModule } from "./lua-module.ts";

export const claimLua: LuaModule = {
  exports: [],
  source: String.raw`
local SKIP_MAX = 10000
-- Up to so many, one command takes them out; the scores that come with each cost more than a second command for many.
local POP_MAX = 16

-- The next ready jobs of a route behind those looked at before: members and, on request, scores. Jobs whose clock has
-- rung are passed over.
local function look(c, source, wanted, hasScores)
  if not hasScores and not c.hasRung then
    if wanted > POP_MAX then return call("ZRANGE", source.key, 0, wanted - 1) end
    local popped, members = call("ZPOPMIN", source.key, num(wanted)), {}
    for i = 1, #popped, 2 do members[#members + 1] = popped[i] end
    source.isGone = true
    if #members < wanted then c.emptied[source.route] = true end
    return members
  end
  local members, scores = {}, {}
  while #members < wanted and not source.isEmpty do
    local want = wanted - #members
    local found = call("ZRANGE", source.key, source.at, source.at + want - 1, "WITHSCORES")
    local handles, clocks = {}, nil
    for i = 1, #found, 2 do handles[#handles + 1] = found[i] end
    if #handles < want then source.isEmpty = true end
    source.at = source.at + #handles
    if c.hasRung then clocks = fetch("ZMSCORE", c.k.clock, handles) end
    for i, h in ipairs(handles) do
      local clock = clocks and clocks[i]
      if clock and tonumber(clock) <= c.now then source.skipped = source.skipped + 1
      else
        members[#members + 1] = h
        scores[#scores + 1] = tonumber(found[i * 2])
      end
    end
    if source.skipped > SKIP_MAX then source.isEmpty = true end
  end
  return members, scores
end

local function sourceOf(c, route)
  return { key = c.k.ready .. route, route = route, at = 0, skipped = 0, taken = {} }
end

local function isBefore(a, b)
  local x, y = a.scores[a.head], b.scores[b.head]
  if x ~= y then return x < y end
  return a.members[a.head] < b.members[b.head]
end

-- Merges several routes by their heads, which are kept sorted. Answers the members, the route of each, and the sources.
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

local function takeOut(source)
  local n = #source.taken
  if n == 0 or source.isGone then return end
  if source.skipped == 0 then call("ZREMRANGEBYRANK", source.key, 0, n - 1)
  else many("ZREM", source.key, source.taken) end
end

-- The members of one offer: with one route, that route stands for all of them.
local function takeOffer(c, routes, wanted)
  if #routes > 1 then
    local members, of, sources = takeMerged(c, routes, wanted)
    for _, source in ipairs(sources) do takeOut(source) end
    return members, of
  end
  local source = sourceOf(c, routes[1])
  source.taken = look(c, source, wanted, false)
  takeOut(source)
  return source.taken, nil
end

-- What first claims of plain jobs of a route by one owner share: the parts of their state around id and times, and
-- their event.
local function templateOf(c, route, owner)
  local job = newJob()
  job.id, job.route, job.state = HOLE, route, READY
  lease({ now = c.now, at = HOLE, fence = c.fence }, job, owner, HOLE)
  local t = { parts = split(stateOf(job), HOLE) }
  t.event, t.extra = eventOf(job, CLAIMED)
  return t
end

local function prepare(c, route, owner, endsAt)
  local key = owner .. US .. route
  local t = recall(c, key)
  if not t then
    t = templateOf(c, route, owner)
    keep(c, key, t)
  end
  local bundle = bundleOf(c, t.event, RUNNING, t.extra)
  return { before = t.parts[1], behind = fillFirst(t.parts, c.at, endsAt), bundle = bundle }
end

local function leaseAny(c, h, spec, state, owner, endsAt)
  widen(c)
  local job = readJob(c.k, h, spec, state)
  touch(c, job)
  lease(c, job, owner, endsAt)
  tell(c, job, CLAIMED)
  return job
end

-- of: the route of each member, or nothing where all are of one route. Appends handle and spec to out, and place and
-- job to others.
local function leaseAll(c, members, of, route, owner, endsAt, out, others)
  local specs, states = fetch("HMGET", c.k.spec, members), fetch("HMGET", c.k.state, members)
  local written, leases, firsts = c.states or {}, c.zadd[c.k.lease] or {}, c.firsts
  c.states, c.zadd[c.k.lease] = written, leases
  local n, z, o = #written, #leases, #out
  for i, h in ipairs(members) do
    local spec = specs[i]
    if spec then
      if HAS_PLAIN_ROADS and not states[i] and isPlainSpec(spec) then
        if of then route = of[i] end
        local first, id = firsts[route], plainIdOf(spec)
        if not first then
          first = prepare(c, route, owner, endsAt)
          firsts[route], c.first = first, first
        end
        written[n + 1], written[n + 2] = h, first.before .. id .. first.behind
        n = n + 2
        leases[z + 1], leases[z + 2] = endsAt, h
        z = z + 2
        local g = first.bundle
        g.n = g.n + 1
        g[g.n] = id
      else
        others[#others + 1] = o / 2
        others[#others + 1] = leaseAny(c, h, spec, states[i], owner, endsAt)
      end
      out[o + 1], out[o + 2] = h, spec
      o = o + 2
    end
  end
end

function OPERATIONS.claim(c)
  local owner, endsAt = nextArg(c), num(c.now + nextArg(c))
  local out, others, filled = {}, {}, 0
  c.emptied, c.hasRung, c.firsts, c.first = {}, hasRung(c), {}, nil
  while c.i <= c.last do
    local wanted, routes = nextNumber(c), {}
    for r = 1, nextNumber(c) do routes[r] = nextArg(c) end
    local members, of = takeOffer(c, routes, wanted)
    if #members == wanted then filled = filled + 1 end
    if #members > 0 then leaseAll(c, members, of, routes[1], owner, endsAt, out, others) end
  end
  writeRecords(c)
  for i = 2, #others, 2 do others[i] = others[i].stateText end
  local first = c.first and c.first.before .. c.first.behind or ""
  return { c.at, nextClock(c), filled, first, out, others }
end
`,
};
