-- runs/claim
module(function()
local bytesWith, claimLanes, closePermits, endLanes = M.bytesWith, M.claimLanes, M.closePermits, M.endLanes
local filledOf, firstOf, handOut, hasGates, hasRung = M.filledOf, M.firstOf, M.handOut, M.hasGates, M.hasRung
local isLaned, isLikeLast, leaseAny, leaseMember = M.isLaned, M.isLikeLast, M.leaseAny, M.leaseMember
local lookGated, lookOffer, nextArg, nextClock = M.lookGated, M.lookOffer, M.nextArg, M.nextClock
local nextNumber, noteLike, num, partEnd, push2 = M.nextNumber, M.noteLike, M.num, M.partEnd, M.push2
local readFirst, readPart, readPlain, sharedOf = M.readFirst, M.readPart, M.readPlain, M.sharedOf
local startLanes, startPermits, takeFirst, takeTokens = M.startLanes, M.startPermits, M.takeFirst, M.takeTokens
local writeRecords = M.writeRecords

-- The reader of plain jobs if there is no set path.
local function readNone() end

-- The set path of one job: its first claim, and it is plain but for tags and a unique key. Answers whether it is such a
-- job.
local function leaseFirst(c, h, spec, state, route, isStarted)
  local id, flags, lane
    if HAS_LEASE_SET then id, flags, lane = readFirst(spec, state, route) end
  if not id or lane ~= "" then return false end
  local first = firstOf(c, route, c.owner, c.endsAt, isStarted, flags)
  local g = first.bundle
  push2(c, "states", h, first.before .. id .. first.behind)
  push2(c.zadd, c.k.lease, c.endsAt, h)
  handOut(c, h, spec)
  g.n = g.n + 1
  g[g.n] = id
  return true
end

-- Any job that has not the text of the plain one before it; one that is not ready there is passed over.
local function leaseOther(c, h, spec, state, route, isStarted)
  if leaseFirst(c, h, spec, state, route, isStarted) or leaseMember(c, h, spec, state, route, isStarted) then return end
  local job = leaseAny(c, h, spec, state, route, c.owner, c.endsAt, isStarted)
  if not job then return end
  push2(c, "others", #c.out, job)
  handOut(c, h, spec)
end

-- Leases the members after the first N (done), whose specs and states these are, up to the one with which the inputs
-- reach the bound. Appends to c.handles and out, and place and job to c.others. Answers how many members are taken now.
local function leasePart(c, members, done, specs, states, of, route, isStarted)
  local endsAt, handles, out = c.endsAt, c.handles, c.out
  local written, leases, alike, read =
    c.states, c.zadd[c.k.lease], c.alike, HAS_LEASE_SET and readPlain or readNone
  local w, z, o, last, bytes, bytesMax = #written + 1, #leases + 1, #out + 1, #specs, c.bytes, c.bytesMax
  local first = firstOf(c, route, c.owner, c.endsAt, isStarted, "")
  local before, behind, g, n = first.before, first.behind, first.bundle, first.bundle.n
  -- What the last plain job shared with others of its route: most share it too.
  local shared = sharedOf(alike, route)
  for i = 1, last do
    local h, spec = members[done + i], specs[i]
    if of and of[done + i].route ~= route then
      g.n, route = n, of[done + i].route
      first = firstOf(c, route, c.owner, c.endsAt, isStarted, "")
      before, behind, g, n, shared = first.before, first.behind, first.bundle, first.bundle.n, sharedOf(alike, route)
    end
    if spec then
      bytes = bytes + #spec
      if bytes >= bytesMax then
        bytes = bytesWith(c, spec, out)
        if bytes >= bytesMax then
          c.isFull, last = true, i
        end
      end
    end
    local id, state = nil, states[i]
    if spec and not state then
      local stop = find(spec, US, 2, true)
      if
        stop
        and find(spec, shared, stop, true) == stop
        and byte(spec) == US_BYTE
        and not find(spec, US, stop + #shared, true)
      then
        id = sub(spec, 2, stop - 1)
      else
        id = read(spec, route, alike)
        shared = sharedOf(alike, route)
      end
    end
    if id then
      n = n + 1
      g[n] = id
      written[w], written[w + 1] = h, before .. id .. behind
      leases[z], leases[z + 1] = endsAt, h
      handles[o], out[o] = h, spec
      w, z, o = w + 2, z + 2, o + 1
    elseif state and c.lastMember and isLikeLast(c.lastMember, spec, state, route, isStarted) then
      local member = c.lastMember
      id = member.id
      local bundle = member.bundle
      bundle.n = bundle.n + 1
      bundle[bundle.n] = id
      written[w], written[w + 1] = h, member.before .. id .. member.behind
      leases[z], leases[z + 1] = endsAt, h
      noteLike(c, member, o - 1)
      handles[o], out[o] = h, spec
      w, z, o = w + 2, z + 2, o + 1
    else
      g.n = n
      leaseOther(c, h, spec, state, route, isStarted)
      w, z, o, n = #written + 1, #leases + 1, #out + 1, g.n
    end
    if i == last then break end
  end
  g.n, c.bytes = n, bytes
  return done + last
end

-- Answers how many members were taken. Of the leased jobs, the first N (starts) have started.
local function leaseAll(c, members, of, sources, wanted, starts)
  local out, taken, total = c.out, 0, #members
  local startsTo = #out + starts
  c.states, c.zadd[c.k.lease] = c.states or {}, c.zadd[c.k.lease] or {}
  while taken < total and not c.isFull do
    local to, left = partEnd(c, taken, total), startsTo - #out
    if left > 0 then to = min(to, taken + left) end
    local specs, states = readPart(c, members, taken + 1, to, sources[1])
    local route = of and of[taken + 1].route or sources[1].route
    taken = leasePart(c, members, taken, specs, states, of, route, left > 0)
  end
  takeFirst(c, members, of, sources, taken, wanted)
  return taken
end

-- Takes of one offer of jobs without lanes. Answers whether more may be left.
local function claimPlain(c, routes, wanted, starts, owner, endsAt, out, hasPermits)
  local isFull, from = c.isFull, #out
  routes = filledOf(c, routes)
  local isGated = hasPermits and not isFull and hasGates(c, routes)
  local lookAt = isGated and lookGated or lookOffer
  local members, of, sources = lookAt(c, routes, isFull and 1 or wanted, isFull)
  local taken = 0
  if #members > 0 and not isFull then
    taken = leaseAll(c, members, of, sources, isGated and c.room or wanted, starts)
  end
  local isLeft = isGated and closePermits(c, members, of, sources, taken, from)
  return #members == wanted or taken < #members or isLeft
end

-- The states of jobs that are no first claims of plain ones, by their places: those in a row that have the same, once.
-- times: how many in a row an entry is of, where it is of more than one.
local function statesOf(others)
  local runs, n = {}, 0
  for i = 1, #others, 2 do
    local place, state, times = others[i], others[i + 1].stateText, others[i + 1].times or 1
    if n > 0 and runs[n] == state and runs[n - 2] + runs[n - 1] == place then
      runs[n - 1] = runs[n - 1] + times
    else
      runs[n + 1], runs[n + 2], runs[n + 3] = place, times, state
      n = n + 3
    end
  end
  return runs
end

function OPERATIONS.claim(c)
  local owner, endsAt, out, filled = nextArg(c), num(c.now + nextArg(c)), {}, 0
  c.bytesMax, c.bytes, c.near, c.nearTo, c.isFull, c.opensAt = tonumber(nextArg(c)) or math.huge, 0, 0, 0, false, nil
  c.owner, c.endsAt, c.handles, c.out = owner, endsAt, {}, out
  c.emptied, c.hasRung, c.started, c.waiting, c.first, c.alike, c.others = {}, hasRung(c), {}, {}, nil, {}, {}
  c.leasedAlike, c.lastMember, c.lastFlow = { [true] = {}, [false] = {} }, nil, nil
  local hasPermits, hasLanes = c.life.gates and startPermits(c), false
  while c.i <= c.last do
    local wanted, starts, routes = nextNumber(c), nextNumber(c), {}
    for r = 1, nextNumber(c) do
      routes[r] = nextArg(c)
    end
    local take = claimPlain
    if isLaned(c, routes) then
      hasLanes, take = hasLanes or startLanes(c), claimLanes
    end
    if take(c, routes, wanted, starts, owner, endsAt, out, hasPermits) then filled = filled + 1 end
  end
  if hasPermits then takeTokens(c) end
  writeRecords(c)
  if hasLanes then endLanes(c) end
  local first = c.first and c.first.before .. c.first.behind or ""
  local handles = concat(c.handles, ",")
  return {
    c.at,
    nextClock(c),
    filled,
    first,
    handles,
    out,
    statesOf(c.others),
    c.opensAt and num(c.opensAt - c.now) or nil,
  }
end

end)
