/**
 * The claim of an offer whose jobs have lanes (R6, R7), on the general path: the first jobs of the open lanes in the
 * order of the lanes, and after one that was taken the next of its lane (lane-candidates.lua.ts). A lane that is
 * refused waits, or stays open for others (waiting-lanes.lua.ts). What is taken leaves its line and moves its gates and
 * its turn at once; the lanes are written at the end of the offer.
 *
 *  c.standing   gate US route: a lane of the route was refused by the gate, which lets lighter jobs pass, and is open
 */
import { takes } from "../library/path-branches.ts";
import { lua, luaModule } from "../library/lua.ts";

export const claimLanesLua = luaModule({
  name: "groups/claim-lanes",
  takes: [
    "addOther bytesWith closedFor emit firstOf firstScore firstWaiting handOut isOverOwnCap",
    "isRefusing keyGateOf lanedOf lease leaveLine many newCandidate nextCandidate NONE noteLane",
    "openByClock opensAt positionOf push push2 readCandidates REFUSED_MAX setClocks tagsIn",
    "takeLaneSets takePermits takeTurn tatAfter topOf touch usesOf waitEntryOf workOf writeLanes",
    "writeTops",
  ],
  gives: ["claimLanes startLanes endLanes isLaned"],
  source: lua`
-- The next lane of a route that waits at a gate is a candidate.
local function releaseNext(c, p, gate, route)
  local record = c.hasWaiting and firstWaiting(c, gate .. US .. route)
  if not record then return end
  for _, each in ipairs(tagsIn(record.was.waitsAt)) do
    call("ZREM", c.k.waits, waitEntryOf(each, record))
  end
  record.was.handle, record.waitsAt, record.isTouched = "", "", true
  noteLane(workOf(c), record.key)
  if p.routes[record.route] then
    local position = positionOf(c, record)
    addOther(p, newCandidate(record.handle, record.key, record.route, record.place, position))
  end
end

-- The gates of the keys of a job that was looked at, and that let others pass: lanes may wait there for what it does
-- not take now.
local function leftAt(c, uses)
  local left = {}
  for _, use in ipairs(uses) do
    local g = keyGateOf(c, use.key)
    local isClosed = g.isShut or isRefusing(g, use, 1, c.now) or isOverOwnCap(g, use)
    if not isClosed then left[#left + 1] = use.key end
  end
  return left
end

local function goOn(c, p, candidate)
  for _, gate in ipairs(c.hasWaiting and leftAt(c, candidate.uses) or NONE) do
    releaseNext(c, p, gate, candidate.route)
  end
end

local function noteOpening(c, at)
  if at and (not c.opensAt or at < c.opensAt) then c.opensAt = at end
end

-- Whether a gate that the job has to pass is shut: one of its route, one of its keys.
local function isShutFor(c, candidate)
  for _, use in ipairs(usesOf(c, candidate.route) or NONE) do
    if c.permits[use.gate].isShut then return true, false end
  end
  for _, use in ipairs(candidate.uses) do
    if keyGateOf(c, use.key).isShut then return false, true end
  end
  return false, false
end

-- Whether a gate of its route refuses a job, and whether one of its keys does. These are shut for the rest of the call,
-- but for what the job's own cap alone refuses.
local function refusedBy(c, candidate)
  local isRouteShut, isKeyShut = isShutFor(c, candidate)
  if isRouteShut or isKeyShut then return isRouteShut, isKeyShut end
  for _, use in ipairs(usesOf(c, candidate.route) or NONE) do
    local gate, permits = use.gate, c.permits[use.gate]
    if permits.left < use.weight then
      permits.isShut, isRouteShut = true, true
      noteOpening(c, opensAt(gate, tatAfter(gate, permits.taken, c.now), use.weight, c.now))
    end
  end
  for _, use in ipairs(candidate.uses) do
    local g = keyGateOf(c, use.key)
    if isRefusing(g, use, use.weight, c.now) then
      g.isShut, isKeyShut = true, true
      local at = opensAt(g, g.tatUs, use.weight, c.now)
      noteOpening(c, at)
      if at and (not g.opensAt or at < g.opensAt) then g.opensAt = at end
    elseif isOverOwnCap(g, use) then
      isKeyShut = true
    end
  end
  return isRouteShut, isKeyShut
end

-- The gates at which a refused lane waits; none if it has to stay open.
local function refusedAt(c, candidate)
  local closed, partly = closedFor(c, candidate.uses)
  if not partly[1] then return closed end
  local isFirst = false
  for _, key in ipairs(partly) do
    local place = key .. US .. candidate.route
    isFirst = isFirst or not c.standing[place]
    c.standing[place] = true
  end
  return isFirst and NONE or partly
end

-- R7: whether the first job of a lane passes all its gates. If it does not, the lane waits.
local function admitCandidate(c, p, candidate)
  if candidate.uses == NONE and not usesOf(c, candidate.route) then return true end
  local isRouteShut, isKeyShut = refusedBy(c, candidate)
  if isRouteShut then
    p.closed[candidate.route] = true
  elseif isKeyShut then
    local record, gates = c.lanes[candidate.lane], refusedAt(c, candidate)
    p.refused = p.refused + 1
    goOn(c, p, candidate)
    if gates[1] then
      record.waitsAt, record.isTouched = concat(gates, RS), true
      noteLane(workOf(c), record.key)
    end
  else
    return true
  end
  return false
end

local function moveTurn(c, record, candidate)
  local laned = lanedOf(c, candidate.route)
  if not laned.byTurn then return end
  local queue, top = laned.queue, nil
  top, record.turn = takeTurn(record.turn or 0, topOf(c, queue), candidate.step or 0)
  c.turned = c.turned or {}
  c.tops[queue], c.turned[queue] = top, true
end

-- Leases a candidate. Its line, gates and turn are written with its lane.
local function leaseCandidate(c, p, candidate, isStarted)
  local h, route, job = candidate.handle, candidate.route, candidate.job
  if job then
    touch(c, job)
    lease(c, job, p.owner, p.endsAt, isStarted)
    emit(c, job, CLAIMED)
    job.isLaneWritten = true
    push2(c, "others", #c.out, job)
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

local function takeCandidate(c, p, candidate, starts)
  local record = c.lanes[candidate.lane]
  c.bytes = c.bytes + #candidate.spec
  if c.bytes >= c.bytesMax then
    c.bytes = bytesWith(c, candidate.spec, c.out)
    c.isFull = c.bytes >= c.bytesMax
  end
  if usesOf(c, candidate.route) then takePermits(c, candidate.route, 1) end
  for _, use in ipairs(candidate.uses) do
    local g = keyGateOf(c, use.key)
    g.held, g.tatUs = g.held + use.weight, tatAfter(g, use.weight, c.now)
  end
  moveTurn(c, record, candidate)
  leaveLine(c, p, candidate)
  goOn(c, p, candidate)
  leaseCandidate(c, p, candidate, p.taken < starts)
  p.taken = p.taken + 1
end

local function startOffer(c, routes, wanted, owner, endsAt)
  local p = { wanted = wanted, owner = owner, endsAt = endsAt, taken = 0, refused = 0, routes = {}, sources = {} }
  p.others, p.lines, p.closed, p.strays, p.ready = {}, {}, {}, {}, {}
  p.batch = math.ceil(wanted / #routes) + 4
  for _, route in ipairs(routes) do
    p.routes[route], c.offered[route] = true, true
    push(p, "sources", { key = c.k.open .. route, route = route, at = 0, list = {}, i = 1 })
  end
  return p
end

local function endOffer(c, p)
  for key, list in pairs(p.strays) do
    many("ZREM", key, list)
  end
  for route, list in pairs(p.ready) do
    many("ZREM", c.k.ready .. route, list)
  end
  if c.laneWork then writeLanes(c) end
end

local function hasOpenLane(c, routes)
  for _, route in ipairs(routes) do
    if call("EXISTS", c.k.open .. route) == 1 then return true end
  end
  return false
end

-- Takes of one offer of jobs with lanes. Answers whether more may be left.
local function claimLanes(c, routes, wanted, starts, owner, endsAt)
  if c.isFull then return hasOpenLane(c, routes) end
  local isMore = openByClock(c)
  local p = startOffer(c, routes, wanted, owner, endsAt)
  c.hasWaiting = call("EXISTS", c.k.waits) == 1
  if ${takes("claim: lanes")} then takeLaneSets(c, p, routes[1], starts) end
  while p.taken < wanted and p.refused < REFUSED_MAX and not c.isFull do
    local candidate = nextCandidate(c, p)
    if not candidate then break end
    if not p.closed[candidate.route] then
      if not candidate.isRead then readCandidates(c, { candidate }) end
      if candidate.isStray then
        leaveLine(c, p, candidate)
      elseif candidate.isRung then
        goOn(c, p, candidate)
      elseif admitCandidate(c, p, candidate) then
        takeCandidate(c, p, candidate, starts)
      end
    end
  end
  isMore = isMore or p.taken == wanted or p.refused >= REFUSED_MAX or c.isFull and nextCandidate(c, p) ~= nil
  endOffer(c, p)
  return isMore
end

-- Before the first offer with lanes.
local function startLanes(c)
  for _, g in pairs(c.keyed or NONE) do
    g.isShut, g.opensAt = false, false
  end
  c.standing, c.offered = {}, {}
  return true
end

-- After the last one: clocks of gates, and turns that nobody needs any more.
local function endLanes(c)
  setClocks(c)
  writeTops(c)
  local at = firstScore(c.k.opens)
  if at and at > c.now then noteOpening(c, at) end
  c.standing, c.offered = nil, nil
end

-- Whether the jobs of an offer have lanes: all of one order, as far as routes have had jobs.
local function isLaned(c, routes)
  local laned = c.life.laned
  for _, route in ipairs(routes) do
    if laned[route] or laned[route] == nil and lanedOf(c, route) then return true end
  end
  return false
end
`,
});
