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
        first = prepareFirst(c, route, owner, endsAt, isStarted, flags)
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

-- Takes of one offer of jobs without lanes. Answers whether more may be left.
local function claimPlain(c, routes, wanted, starts, owner, endsAt, out, hasPermits)
  local isFull, from = c.isExact and c.bytes >= c.bytesMax, #out
  local isGated = hasPermits and not isFull and hasGates(c, routes)
  local lookAt = isGated and lookGated or lookOffer
  local members, of, sources = lookAt(c, routes, isFull and 1 or wanted, isFull)
  local taken = 0
  if #members > 0 and not isFull then
    taken = leaseAll(c, members, of, sources, isGated and c.room or wanted, owner, endsAt, starts, out)
  end
  local isLeft = isGated and closePermits(c, members, of, sources, taken, out, from)
  return #members == wanted or taken < #members or isLeft
end

function OPERATIONS.claim(c)
  local owner, endsAt, out, filled = nextArg(c), num(c.now + nextArg(c)), {}, 0
  c.bytesMax, c.bytes, c.isExact, c.opensAt = tonumber(nextArg(c)), 0, false, nil
  c.emptied, c.hasRung, c.started, c.waiting, c.first, c.alike, c.others = {}, hasRung(c), {}, {}, nil, {}, {}
  local hasPermits, hasLanes = c.life.gates and startPermits(c), false
  while c.i <= c.last do
    local wanted, starts, routes = nextNumber(c), nextNumber(c), {}
    for r = 1, nextNumber(c) do routes[r] = nextArg(c) end
    local take = claimPlain
    if isLaned(c, routes) then
      hasLanes, take = hasLanes or startLanes(c), claimLanes
    end
    if take(c, routes, wanted, starts, owner, endsAt, out, hasPermits) then filled = filled + 1 end
  end
  if hasPermits then takeTokens(c) end
  writeRecords(c)
  if hasLanes then endLanes(c) end
  local others = c.others
  for i = 2, #others, 2 do others[i] = others[i].stateText end
  local first = c.first and c.first.before .. c.first.behind or ""
  return { c.at, nextClock(c), filled, first, out, others, c.opensAt and num(c.opensAt - c.now) or nil }
end
`;
