/**
 * The claim of an offer whose jobs have lanes (R6, R7): the first jobs of the open lanes in the order of the lanes, and
 * behind one that was taken the next of its lane (lane-candidates.ts). A lane that is refused is parked, or speaks for
 * others (parked.ts). What is taken leaves its line and moves its gates and its turn at once; the lanes are written at
 * the end of the offer.
 */

export const claimLanesLua = String.raw`
-- The next lane of a route that waits at a gate is a candidate.
local function callNext(c, p, gate, route)
  local record, _, hasNext = firstParked(c, gate .. US .. route)
  if not record then return end
  for _, each in ipairs(tagsIn(record.was.parked)) do call("ZREM", c.k.parked, parkedEntry(each, record)) end
  record.was.handle = ""
  unpark(record, gate, hasNext)
  noteLane(workOf(c), record.key)
  if p.routes[record.route] then
    local position = positionOf(c, record)
    addOther(p, newCandidate(record.handle, record.key, record.route, record.place, position))
  end
end

-- The lane speaks for those behind it at this gate, or at none, and no longer where it did: there the next is called.
-- but: gates whose lanes need nobody.
local function speakAt(c, p, record, gate, but)
  local before, route = tagsIn(record.speaks), record.route
  record.speaks = gate
  noteLane(workOf(c), record.key)
  for _, each in ipairs(before) do
    if each ~= gate and not but[each] then callNext(c, p, each, route) end
  end
end

local function parkAt(c, p, record, gates, but)
  record.parked = concat(gates, RS)
  speakAt(c, p, record, "", but)
end

local function tellOpening(c, at)
  if at and (not c.opensAt or at < c.opensAt) then c.opensAt = at end
end

-- Which gates refuse a job: whether one of its route does, then those of its keys; of these, by key, those that let
-- nobody pass, and one that lets lighter jobs pass. All are shut for the rest of the call, but for what the job's own
-- cap alone refuses.
local function refusals(c, candidate)
  local isRouteClosed, refusing, full, partly = false, {}, {}, nil
  for _, use in ipairs(usesOf(c, candidate.route) or {}) do
    local gate, permits = use.gate, c.permits[use.gate]
    if permits.left < use.weight then
      permits.isShut, isRouteClosed = true, true
      tellOpening(c, opensAt(gate, tatAfter(gate, permits.taken, c.now), use.weight, c.now))
    end
  end
  for _, use in ipairs(candidate.uses) do
    local g = keyGateOf(c, use.key)
    if isRefusing(g, use, use.weight, c.now) then
      g.isShut = true
      refusing[#refusing + 1] = use.key
      full[use.key] = isRefusing(g, use, 1, c.now)
      if not full[use.key] then partly = use.key end
      local at = opensAt(g, g.tatUs, use.weight, c.now)
      tellOpening(c, at)
      if at and (not g.opensAt or at < g.opensAt) then g.opensAt = at end
    elseif isOverOwnCap(g, use) then refusing[#refusing + 1] = use.key end
  end
  return isRouteClosed, refusing, full, partly
end

-- Whether a gate that the job has to pass is shut: true for one of its route, else the key.
local function shutGateOf(c, candidate)
  for _, use in ipairs(usesOf(c, candidate.route) or {}) do
    if c.permits[use.gate].isShut then return true end
  end
  for _, use in ipairs(candidate.uses) do
    if keyGateOf(c, use.key).isShut then return use.key end
  end
end

-- Whether the first job of a lane passes all its gates. Where it does not, the lane is parked or speaks.
local function admitCandidate(c, p, candidate)
  if candidate.uses == NONE and not usesOf(c, candidate.route) then return true end
  local record, shut = c.lanes[candidate.lane], shutGateOf(c, candidate)
  if shut == true then p.closed[candidate.route] = true
  elseif shut then
    p.refused = p.refused + 1
    local place = shut .. US .. candidate.route
    local speaker = c.speakers[place]
    if speaker and speaker ~= candidate.lane then parkAt(c, p, record, { shut }, { [shut] = true })
    else
      c.speakers[place] = candidate.lane
      speakAt(c, p, record, shut, {})
    end
  else
    local isRouteClosed, refusing, full, partly = refusals(c, candidate)
    if isRouteClosed then p.closed[candidate.route] = true
    elseif #refusing > 0 then
      p.refused = p.refused + 1
      if partly then
        c.speakers[partly .. US .. candidate.route] = candidate.lane
        speakAt(c, p, record, partly, {})
      else parkAt(c, p, record, refusing, full) end
    else return true end
  end
  return false
end

local function takeTurn(c, record, candidate)
  local laned = lanedOf(c, candidate.route)
  if not laned.byTurn then return end
  local turn = max(record.turn or 0, topOf(c, laned.queue))
  c.turned = c.turned or {}
  c.tops[laned.queue], c.turned[laned.queue] = turn, true
  record.turn = turn + (candidate.step or 0)
end

-- Leases a candidate as its road is. Its line, gates and turn are written with its lane.
local function leaseOne(c, p, candidate, isStarted, out)
  local h, route, job = candidate.handle, candidate.route, candidate.job
  if job then
    touch(c, job)
    lease(c, job, p.owner, p.endsAt, isStarted)
    tell(c, job, CLAIMED)
    job.isLaneWritten = true
    push2(c, "others", #out, job)
  else
    local first = firstOf(c, route, p.owner, p.endsAt, isStarted, candidate.flags)
    push2(c, "states", h, first.before .. candidate.id .. first.behind .. candidate.gates)
    push2(c.zadd, c.k.lease, p.endsAt, h)
    push(p.ready, route, h)
    local g = first.bundle
    g.n = g.n + 1
    g[g.n] = candidate.id
  end
  handOut(c, h, candidate.spec)
end

local function takeCandidate(c, p, candidate, starts, out)
  local record = c.lanes[candidate.lane]
  c.bytes = c.bytes + #candidate.spec
  if c.bytes >= c.bytesMax then
    c.bytes = bytesWith(c, candidate.spec, out)
    c.isFull = c.bytes >= c.bytesMax
  end
  if usesOf(c, candidate.route) then takePermits(c, candidate.route, 1) end
  for _, use in ipairs(candidate.uses) do
    local g = keyGateOf(c, use.key)
    g.held, g.tatUs = g.held + use.weight, tatAfter(g, use.weight, c.now)
  end
  takeTurn(c, record, candidate)
  local spoke = tagsIn(record.speaks)
  leaveLine(c, p, candidate)
  for _, gate in ipairs(spoke) do
    for _, use in ipairs(candidate.uses) do
      local isMet = use.key == gate and not isRefusing(keyGateOf(c, gate), use, 1, c.now)
      if isMet then callNext(c, p, gate, candidate.route) end
    end
  end
  leaseOne(c, p, candidate, p.taken < starts, out)
  p.taken = p.taken + 1
end

local function startOffer(c, routes, wanted, owner, endsAt)
  local p = { wanted = wanted, owner = owner, endsAt = endsAt, taken = 0, refused = 0, left = 0, blocks = 0, routes = {}, sources = {} }
  p.others, p.lines, p.closed, p.strays, p.ready, p.blocked, p.isDone = {}, {}, {}, {}, {}, {}, false
  p.batch = math.ceil(wanted / #routes) + 4
  for _, route in ipairs(routes) do
    p.routes[route], c.offered[route] = true, true
    push(p, "sources", { key = c.k.open .. route, route = route, at = 0, list = {}, i = 1 })
  end
  return p
end

local function endOffer(c, p)
  for key, list in pairs(p.strays) do many("ZREM", key, list) end
  for route, list in pairs(p.ready) do many("ZREM", c.k.ready .. route, list) end
  if c.laneWork then writeLanes(c) end
end

local function hasOpenLane(c, routes)
  for _, route in ipairs(routes) do
    if call("EXISTS", c.k.open .. route) == 1 then return true end
  end
  return false
end

-- Takes of one offer of jobs with lanes. Answers whether more may be left.
local function claimLanes(c, routes, wanted, starts, owner, endsAt, out)
  if c.isFull then return hasOpenLane(c, routes) end
  local isMore = openByClock(c)
  local p = startOffer(c, routes, wanted, owner, endsAt)
  if #routes == 1 then takeStretches(c, p, routes[1], starts) end
  while p.taken < wanted and p.refused < REFUSED_MAX and not c.isFull and not p.isDone do
    local candidate = nextCandidate(c, p)
    if not candidate then break end
    if not p.closed[candidate.route] then
      if not candidate.isRead then readCandidates(c, { candidate }) end
      if candidate.isStray then leaveLine(c, p, candidate)
      elseif candidate.isRung then speakAt(c, p, c.lanes[candidate.lane], "", {})
      elseif admitCandidate(c, p, candidate) then takeCandidate(c, p, candidate, starts, out) end
    end
  end
  isMore = isMore or p.taken == wanted or p.refused >= REFUSED_MAX or c.isFull and nextCandidate(c, p) ~= nil
  endOffer(c, p)
  return isMore
end

-- Before the first offer with lanes.
local function startLanes(c)
  for _, g in pairs(c.keyed or NONE) do g.isShut, g.opensAt = false, false end
  c.speakers, c.offered, c.leased = {}, {}, {}
  return true
end

-- Behind the last one: clocks of gates, and turns that nobody needs any more.
local function endLanes(c)
  setClocks(c)
  writeTops(c)
  local at = firstScore(c.k.opens)
  if at and at > c.now then tellOpening(c, at) end
  c.speakers, c.offered, c.leased = nil, nil, nil
end

-- Whether the jobs of an offer have lanes: all of one order, as far as routes have had jobs.
local function isLaned(c, routes)
  local laned = c.life.laned
  for _, route in ipairs(routes) do
    if laned[route] or laned[route] == nil and lanedOf(c, route) then return true end
  end
  return false
end
`;
