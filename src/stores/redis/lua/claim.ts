/**
 * claim (R6): takes ready jobs in the order of (rank, seq) from the offered routes, never one of whose clocks has rung.
 * An entry of a job that is not ready there is only taken out; where reading fails, all entries are left.
 * Plain jobs that nobody has touched yet get their first state as a set: one template for all of a route. Others are
 * read, changed and written.
 *
 *  args     owner, lease, most bytes of inputs ("" for any), then per offer: max, starts, number of routes,
 *           routes
 *  answer   now, next clock, filled offers, a state as all first claims of plain jobs have it, per job: handle and
 *           spec, and of all but those: place and state; and in how many ms a gate opens that refused a job (permits.ts)
 */

export const claimLua = String.raw`
-- So many are read before it is known how large they are.
local FIRST_READ = 16

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
local function templateOf(c, route, owner, isStarted, flags)
  local job = newJob()
  job.flags = flags
  job.id, job.route, job.state = HOLE, route, READY
  lease({ now = c.now, at = HOLE, fence = c.fence }, job, owner, HOLE, isStarted)
  local t = { parts = split(stateOf(job), HOLE) }
  t.event, t.extra = eventOf(job, CLAIMED)
  return t
end

local function firstKey(route, owner, isStarted) return (isStarted and "s" or "w") .. owner .. US .. route end

-- flags: what the jobs have beyond plain ones.
local function prepare(c, route, owner, endsAt, isStarted, flags)
  local key = flags .. firstKey(route, owner, isStarted)
  local t = recall(c, key)
  if not t then
    t = templateOf(c, route, owner, isStarted, flags)
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
    local isNew = HAS_PLAIN_ROADS and spec and not states[i]
    local id, name, flags = isNew and readPlain(spec, route, alike), route, ""
    if isNew and not id then id, flags = readMarked(spec, route) end
    if id then
      if flags ~= "" then name = flags .. route end
      local first = firsts[name]
      if not first then
        first = prepare(c, route, owner, endsAt, isStarted, flags)
        firsts[name], c.first = first, first
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
  local hasPermits = c.life.gates and startPermits(c)
  while c.i <= c.last do
    local wanted, starts, routes = nextNumber(c), nextNumber(c), {}
    for r = 1, nextNumber(c) do routes[r] = nextArg(c) end
    local isFull, from = c.isExact and c.bytes >= c.bytesMax, #out
    local isGated = hasPermits and not isFull and hasGates(c, routes)
    local lookAt = isGated and lookGated or lookOffer
    local members, of, sources = lookAt(c, routes, isFull and 1 or wanted, isFull)
    local taken = 0
    if #members > 0 and not isFull then
      taken = leaseAll(c, members, of, sources, isGated and c.room or wanted, owner, endsAt, starts, out)
    end
    local isLeft = isGated and closePermits(c, members, of, sources, taken, out, from)
    if #members == wanted or taken < #members or isLeft then filled = filled + 1 end
  end
  if hasPermits then takeTokens(c) end
  writeRecords(c)
  local others = c.others
  for i = 2, #others, 2 do others[i] = others[i].stateText end
  local first = c.first and c.first.before .. c.first.behind or ""
  return { c.at, nextClock(c), filled, first, out, others, hasPermits and c.opensAt and num(c.opensAt - c.now) or nil }
end
`;
