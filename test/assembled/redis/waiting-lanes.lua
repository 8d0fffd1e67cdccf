-- groups/waiting-lanes
module(function()
local AFTER_US, forgottenTurn, headAfter, isOverOwnCap = M.AFTER_US, M.forgottenTurn, M.headAfter, M.isOverOwnCap
local isRefusing, KEY_MARK, keyGateOf, loadKeyGates = M.isRefusing, M.KEY_MARK, M.keyGateOf, M.loadKeyGates
local loadLanes, many, newPlaces, NONE, noteOpen, num = M.loadLanes, M.many, M.newPlaces, M.NONE, M.noteOpen, M.num
local opensAt, push, setBounds, setFirst, setReady = M.opensAt, M.push, M.setBounds, M.setFirst, M.setReady
local tagsIn, takePlace, usesIn, waitEntryOf, workOf = M.tagsIn, M.takePlace, M.usesIn, M.waitEntryOf, M.workOf
local writeKeyGates, writePlaces, writeRecordsOfLanes = M.writeKeyGates, M.writePlaces, M.writeRecordsOfLanes

local function hasItem(list, item)
  for _, each in ipairs(tagsIn(list)) do
    if each == item then return true end
  end
  return false
end

-- Two entries of lanes that wait at a gate (prefix: gate, or gate US route), after an entry or from the head.
local function twoWaiting(c, prefix, from)
  return call("ZRANGE", c.k.waits, from or "[" .. prefix .. US, "(" .. prefix .. AFTER_US, "BYLEX", "LIMIT", "0", "2")
end

-- The first of these lanes; its route, and whether another waits after it. known: the two entries, if they were read.
local function firstWaiting(c, prefix, from, known)
  while true do
    local two = known or twoWaiting(c, prefix, from)
    local found = two[1]
    if not found then return nil end
    local gate, route, lane = match(found, "^([^\31]*)\31([^\31]*)\31[^\31]*\31(.*)$")
    if lane then
      loadLanes(c, { lane })
      local record = c.lanes[lane]
      local isThere = record.was.handle ~= "" and hasItem(record.was.waitsAt, gate)
      if isThere and waitEntryOf(gate, record) == found then return record, route, two[2] ~= nil end
    end
    -- No lane that waits here.
    call("ZREM", c.k.waits, found)
    known = nil
  end
end

-- A lane that waits is open again.
local function releaseLane(c, record, places)
  record.waitsAt, record.isTouched = "", true
  takePlace(c, record, places)
end

-- Opens the first lane of each route that waits at a gate.
local function releaseLanes(c, gate, places, known)
  local record, route, isMore = firstWaiting(c, gate, nil, known)
  while record do
    releaseLane(c, record, places)
    if not isMore then return end
    record, route, isMore = firstWaiting(c, gate, "(" .. gate .. US .. route .. AFTER_US)
  end
end

-- Permits of keys that moved. Those that came back open their gates.
local function moveHeld(c, work)
  local keys = {}
  for key in pairs(work.held) do
    keys[#keys + 1] = key
  end
  if #keys > 0 then loadKeyGates(c, keys) end
  for _, key in ipairs(keys) do
    local g, by = c.keyed[key], work.held[key]
    g.held = max(0, g.held + by)
    if by < 0 then work.releases[key] = true end
  end
end

-- releases: gates, or gate US route.
local function releaseAll(c, releases)
  if next(releases) == nil then return end
  local places, known, lanes = newPlaces(), {}, {}
  for gate in pairs(releases) do
    local two = twoWaiting(c, gate)
    if two[1] then
      known[gate], lanes[#lanes + 1] = two, match(two[1], "^[^\31]*\31[^\31]*\31[^\31]*\31(.*)$")
    end
  end
  loadLanes(c, lanes)
  for gate, two in pairs(known) do
    if not find(gate, US, 1, true) then
      releaseLanes(c, gate, places, two)
    else
      local record = firstWaiting(c, gate, nil, two)
      if record then releaseLane(c, record, places) end
    end
  end
  writePlaces(places)
end

-- Routes with lanes that may go on are hinted, but not to the claim that offers them.
local function hintOpened(c)
  c.hinted = c.hinted or {}
  for _, route in ipairs(c.openRoutes or {}) do
    if not c.hinted[route] and not (c.offered and c.offered[route]) then
      c.hinted[route] = true
      setReady(c, route)
      push(c, "woken", route)
    end
  end
  c.openRoutes = nil
end

-- Of the gates that a job asks for: those that refuse it for as long as they stay as they are, and those that refuse it
-- and let lighter jobs pass.
local function closedFor(c, uses)
  local closed, partly = {}, {}
  for _, use in ipairs(uses) do
    local g = keyGateOf(c, use.key)
    if isOverOwnCap(g, use) or isRefusing(g, use, 1, c.now) then
      closed[#closed + 1] = use.key
    elseif g.isShut or isRefusing(g, use, use.weight, c.now) then
      partly[#partly + 1] = use.key
    end
  end
  return closed, partly
end

-- A lane waits at these gates: a waiting process is notified if their clocks open them.
local function setClocksOf(c, gates, route)
  for _, key in ipairs(gates) do
    local g = c.keyed[key]
    local at = (g.stepUs or g.closedUntil) and opensAt(g, g.tatUs, 1, c.now)
    if at then
      call("ZADD", c.k.opens, num(at), key)
      noteOpen(c, route)
    end
  end
end

-- The gates at which a lane waits whose first job has just come and asks for these; none if a claim has to look. A
-- claim decides by refusedAt (claim-lanes.lua.ts).
local function waitsAt(c, laneGates, route)
  local closed, partly = closedFor(c, usesIn(laneGates))
  if partly[1] then return NONE end
  setClocksOf(c, closed, route)
  return closed
end

local function writeLanes(c)
  local work, k, places = c.laneWork, c.k, newPlaces()
  c.laneWork = nil
  loadLanes(c, work.lanes)
  many("ZREM", k.line, work.gone)
  many("ZADD", k.line, work.come)
  many("ZREM", k.keeping, work.kept)
  many("ZADD", k.keeping, work.keeping)
  moveHeld(c, work)
  for _, lane in ipairs(work.lanes) do
    local record, moved = c.lanes[lane], work.moved[lane]
    local best = moved.best
    setFirst(c, work, record, headAfter(c, work, record, moved), places)
    if best and best.handle == record.handle then record.waitsAt = concat(waitsAt(c, best.gates, record.route), RS) end
    takePlace(c, record, places)
    if moved.isFreed and record.handle ~= "" and record.waitsAt == "" then noteOpen(c, record.route) end
  end
  writePlaces(places)
  releaseAll(c, work.releases)
  writeRecordsOfLanes(c)
  writeKeyGates(c)
  hintOpened(c)
end

-- One call opens up to this many gates.
local OPENED_AT_ONCE = 1000
-- After the mark of keys in the byte order.
local AFTER_MARK = "\n"

-- A limit was put: the keys after this one at which lanes wait are opened. If these are too many for one call, the
-- claims that come go on with it: among the gates that open stands how far it came. Answers whether any are left.
local function releaseKeys(c, limit, last)
  local first, work = limit .. KEY_MARK, workOf(c)
  local from, stop = last == "" and "[" .. first or "(" .. last .. AFTER_US, "(" .. limit .. AFTER_MARK
  for key, g in pairs(c.keyed or NONE) do
    if find(key, first, 1, true) == 1 then setBounds(c, g) end
  end
  for _ = 1, OPENED_AT_ONCE do
    local found = call("ZRANGE", c.k.waits, from, stop, "BYLEX", "LIMIT", "0", "1")[1]
    if not found then return false end
    last = match(found, "^[^\31]*")
    work.releases[last] = true
    from = "(" .. last .. AFTER_US
  end
  call("ZADD", c.k.opens, c.at, limit .. US .. last)
  return true
end

-- Gates whose own clock lets somebody pass by now are opened. Answers whether more are left.
local function openByClock(c)
  local gates = call("ZRANGEBYSCORE", c.k.opens, "-inf", c.at, "LIMIT", "0", num(OPENED_AT_ONCE))
  if #gates == 0 then return false end
  many("ZREM", c.k.opens, gates)
  local work, isMore = workOf(c), #gates == OPENED_AT_ONCE
  for _, gate in ipairs(gates) do
    local limit, last = match(gate, "^([^\31]*)\31(.*)$")
    if limit then
      isMore = releaseKeys(c, limit, last) or isMore
    else
      work.releases[gate] = true
    end
  end
  writeLanes(c)
  return isMore
end

-- The gates that a claim has looked at, and at which lanes wait, open by their clocks.
local function setClocks(c)
  for key, g in pairs(c.keyed or {}) do
    local at = (g.stepUs or g.closedUntil) and opensAt(g, g.tatUs, 1, c.now) or g.opensAt
    if at and firstWaiting(c, key) then call("ZADD", c.k.opens, num(at), key) end
  end
end

-- The end of a claim: what queues have reached, and their empty lanes that are not ahead of it are deleted.
local function writeTops(c)
  for queue in pairs(c.turned or {}) do
    local key, top = c.k.idle .. queue, num(c.tops[queue])
    call("HSET", c.k.top, queue, top)
    local lanes = call("ZRANGEBYSCORE", key, "-inf", num(forgottenTurn(c.tops[queue])))
    many("HDEL", c.k.lane, lanes)
    many("ZREM", key, lanes)
    for _, lane in ipairs(c.lanes and lanes or NONE) do
      c.lanes[lane] = nil
    end
  end
  c.turned = nil
end

M.firstWaiting, M.hintOpened, M.closedFor, M.waitsAt = firstWaiting, hintOpened, closedFor, waitsAt
M.writeLanes, M.releaseKeys, M.openByClock, M.setClocks = writeLanes, releaseKeys, openByClock, setClocks
M.writeTops = writeTops
end)
