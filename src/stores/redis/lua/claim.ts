/**
 * claim (R6): takes ready jobs in the order of (rank, seq) from the offered routes, never one of whose clocks has rung.
 * An entry of a job that is not ready there is only taken out; where reading fails, all entries are left.
 * Plain jobs that nobody has touched yet get their first state as a set: one template for all of a route. Others are
 * read, changed and written.
 *
 *  args     owner, lease, most bytes of inputs ("" for any), then per offer: max, starts, number of routes,
 *           routes
 *  answer   now, next clock, filled offers, a state as all first claims of plain jobs have it, per job: handle and
 *           spec, and of all but those: place and state
 */

export const claimLua = String.raw`
local SKIP_MAX = 10000
-- Up to so many, one command takes them out; the scores that come with each cost more than a second command for many.
local POP_MAX = 16
-- So many are read before it is known how large they are.
local FIRST_READ = 16

-- The next ready jobs of a route behind those looked at before: members and, on request, scores. Jobs whose clock has
-- rung are passed over.
local function look(c, source, wanted, hasScores)
  if not hasScores and not c.hasRung then
    if wanted > POP_MAX then return call("ZRANGE", source.key, "0", num(wanted - 1)) end
    local popped, members = call("ZPOPMIN", source.key, num(wanted)), {}
    for i = 1, #popped, 2 do members[#members + 1] = popped[i] end
    source.popped = popped
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

-- Merges several routes by their heads, which are kept sorted. Answers the members, the source of each, and all
-- sources.
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
    members[n], of[n] = h, source
    source.taken[#source.taken + 1] = h
    source.head = source.head + 1
    if source.head <= #source.members or refill(source) then settle(1)
    else table.remove(heads, 1) end
  end
  return members, of, all
end

-- What was taken out by the look at it, and is not taken after all, goes back.
local function putBack(source, from)
  for i = from * 2, #source.popped, 2 do call("ZADD", source.key, source.popped[i], source.popped[i - 1]) end
end

local function takeOut(source)
  local n = #source.taken
  if source.popped then return putBack(source, n + 1) end
  if n == 0 then return end
  if source.skipped == 0 then call("ZREMRANGEBYRANK", source.key, "0", num(n - 1))
  else many("ZREM", source.key, source.taken) end
end

-- The members of one offer, the source of each (nothing where all are of one), and the sources.
local function lookOffer(c, routes, wanted, isFull)
  if #routes > 1 then return takeMerged(c, routes, wanted) end
  local source = sourceOf(c, routes[1])
  source.taken = look(c, source, wanted, isFull)
  return source.taken, nil, { source }
end

-- The first n of these members leave their indexes.
local function takeFirst(c, members, of, sources, n, wanted)
  if of then
    for i = #members, n + 1, -1 do
      local taken = of[i].taken
      taken[#taken] = nil
    end
  elseif n < #members then sources[1].taken = slice(members, 1, n) end
  for _, source in ipairs(sources) do takeOut(source) end
  if not of and n == #members and n < wanted and sources[1].skipped == 0 then c.emptied[sources[1].route] = true end
end

-- Adds the inputs of specs from one place to another. Answers the place with which they reach the bound, or nothing.
local function reachedAt(c, specs, from, to)
  for i = from, to do
    if specs[i] then
      c.bytes = c.bytes + inputBytes(specs[i])
      if c.bytes >= c.bytesMax then return i end
    end
  end
end

-- The same. A spec is longer than its input, so that sizes are looked at closely only near the bound.
local function reachedAbout(c, specs, from, to, out)
  if c.isExact then return reachedAt(c, specs, from, to) end
  local bytes = c.bytes
  for i = from, to do
    local spec = specs[i]
    if spec then bytes = bytes + #spec end
  end
  c.bytes = bytes
  if bytes < c.bytesMax then return nil end
  c.isExact, c.bytes = true, 0
  for i = 2, #out, 2 do c.bytes = c.bytes + inputBytes(out[i]) end
  return reachedAt(c, specs, 1, to)
end

-- The specs of members up to the one with which the inputs reach the bound, and how many that are. They are read by a
-- few, then by as many as there is room for. out: what was handed out before.
local function specsUpTo(c, members, out)
  local total, key = #members, c.k.spec
  if not c.bytesMax then return fetch("HMGET", key, members), total end
  local from, n = 1, min(FIRST_READ, total)
  local specs = call("HMGET", key, unpack(members, 1, n))
  while true do
    local reached = reachedAbout(c, specs, from, n, out)
    if reached or n == total then return specs, reached or n end
    local room = max(1, floor((c.bytesMax - c.bytes) * n / max(1, c.bytes)))
    from, n = n + 1, min(n + room, total)
    for i, spec in ipairs(fetch("HMGET", key, slice(members, from, n))) do specs[from + i - 1] = spec end
  end
end

-- What first claims of plain jobs of a route by one owner share: the parts of their state around id and times, and
-- their event.
local function templateOf(c, route, owner, isStarted)
  local job = newJob()
  job.id, job.route, job.state = HOLE, route, READY
  lease({ now = c.now, at = HOLE, fence = c.fence }, job, owner, HOLE, isStarted)
  local t = { parts = split(stateOf(job), HOLE) }
  t.event, t.extra = eventOf(job, CLAIMED)
  return t
end

local function firstKey(route, owner, isStarted) return (isStarted and "s" or "w") .. owner .. US .. route end

local function prepare(c, route, owner, endsAt, isStarted)
  local key = firstKey(route, owner, isStarted)
  local t = recall(c, key)
  if not t then
    t = templateOf(c, route, owner, isStarted)
    keep(c, key, t)
  end
  local bundle = bundleOf(c, t.event, RUNNING, t.extra)
  return { before = t.parts[1], behind = fillFirst(t.parts, c.at, endsAt), bundle = bundle }
end

local function readBoth(c, members, out)
  local specs, taken = specsUpTo(c, members, out)
  return specs, taken, fetch("HMGET", c.k.state, taken == #members and members or slice(members, 1, taken))
end

-- Specs, how many, and states. Where they cannot be had at all, no job is left outside of its index.
local function readAll(c, members, source, out)
  if not source.popped then return readBoth(c, members, out) end
  local isRead, specs, taken, states = pcall(readBoth, c, members, out)
  if isRead then return specs, taken, states end
  putBack(source, 1)
  error(specs, 0)
end

-- Nothing for a job that is not ready on this route, or cannot be read.
local function leaseAny(c, h, spec, state, route, owner, endsAt, isStarted)
  widen(c)
  c.met = { route = route, state = READY }
  local job = jobFrom(c, h, spec, state)
  c.met = nil
  if not job or job.state ~= READY or job.route ~= route then return nil end
  touch(c, job)
  lease(c, job, owner, endsAt, isStarted)
  tell(c, job, CLAIMED)
  return job
end

-- Appends handle and spec to out, and place and job to c.others. Answers how many members were taken. The first so many
-- that are leased have started.
local function leaseAll(c, members, of, sources, wanted, owner, endsAt, starts, out)
  local specs, taken, states = readAll(c, members, sources[1], out)
  takeFirst(c, members, of, sources, taken, wanted)
  local written, leases, firsts, alike = c.states or {}, c.zadd[c.k.lease] or {}, c.started, c.alike
  c.states, c.zadd[c.k.lease] = written, leases
  local n, z, o = #written, #leases, #out
  local isStarted, startsTo = true, o + 2 * starts
  local route = sources[1].route
  for i = 1, taken do
    local h, spec, isTaken = members[i], specs[i], true
    if of then route = of[i].route end
    if isStarted and o >= startsTo then isStarted, firsts = false, c.waiting end
    local id = HAS_PLAIN_ROADS and spec and not states[i] and readPlain(spec, route, alike)
    if id then
      local first = firsts[route]
      if not first then
        first = prepare(c, route, owner, endsAt, isStarted)
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
      local job = leaseAny(c, h, spec, states[i], route, owner, endsAt, isStarted)
      isTaken = job ~= nil
      if job then push2(c, "others", o / 2, job) end
    end
    if isTaken then
      out[o + 1], out[o + 2] = h, spec
      o = o + 2
    end
  end
  return taken
end

function OPERATIONS.claim(c)
  local owner, endsAt, out, filled = nextArg(c), num(c.now + nextArg(c)), {}, 0
  c.bytesMax, c.bytes, c.isExact = tonumber(nextArg(c)), 0, false
  c.emptied, c.hasRung, c.started, c.waiting, c.first, c.alike, c.others = {}, hasRung(c), {}, {}, nil, {}, {}
  while c.i <= c.last do
    local wanted, starts, routes = nextNumber(c), nextNumber(c), {}
    for r = 1, nextNumber(c) do routes[r] = nextArg(c) end
    local isFull = c.isExact and c.bytes >= c.bytesMax
    local members, of, sources = lookOffer(c, routes, isFull and 1 or wanted, isFull)
    local taken = 0
    if #members > 0 and not isFull then
      taken = leaseAll(c, members, of, sources, wanted, owner, endsAt, starts, out)
    end
    if #members == wanted or taken < #members then filled = filled + 1 end
  end
  writeRecords(c)
  local others = c.others
  for i = 2, #others, 2 do others[i] = others[i].stateText end
  local first = c.first and c.first.before .. c.first.behind or ""
  return { c.at, nextClock(c), filled, first, out, others }
end
`;
