/**
 * Lanes that wait at the gate of a key (docs/decisions/0023), and the end of a call that has changed lanes.
 *
 * A lane is parked where looking at it would change nothing. Either each gate that refuses its first job lets nobody pass
 * at all: it waits at all of these. Or another lane of its route that is refused by the same gate is open and stands
 * ahead of it: that one **speaks** for those behind it at this gate. So of a gate that may let somebody pass, one lane per
 * route is open; and whenever that one takes a permit, goes away or speaks for others instead, the next is opened.
 *
 *  opens   zset   gates by the time at which their own clock lets somebody pass, while lanes wait there
 */

export const parkedLua = String.raw`
local function hasItem(list, item)
  for _, each in ipairs(tagsIn(list)) do
    if each == item then return true end
  end
  return false
end

local function addItem(list, item)
  if hasItem(list, item) then return list end
  return list == "" and item or list .. RS .. item
end

-- The first lane that waits at a gate (prefix: gate, or gate US route) behind an entry, or from the head; its route.
local function firstParked(c, prefix, from)
  local stop, found = "(" .. prefix .. BEHIND_US, nil
  while true do
    found = call("ZRANGE", c.k.parked, from or "[" .. prefix .. US, stop, "BYLEX", "LIMIT", 0, 1)[1]
    if not found then return nil end
    local gate, route, lane = match(found, "^([^\31]*)\31([^\31]*)\31[^\31]*\31(.*)$")
    if lane then
      loadLanes(c, { lane })
      local record = c.lanes[lane]
      local isThere = record.was.handle ~= "" and hasItem(record.was.parked, gate)
      if isThere and parkedEntry(gate, record) == found then return record, route, gate end
    end
    -- No lane that waits here.
    call("ZREM", c.k.parked, found)
  end
end

-- A lane that waits is open again, and speaks for those behind it at this gate.
local function unpark(record, gate)
  record.parked, record.speaks = "", addItem(record.speaks, gate)
end

-- Opens the first lane of each route that waits at a gate.
local function wakeGate(c, gate, places)
  local from
  while true do
    local record, route = firstParked(c, gate, from)
    if not record then return end
    unpark(record, gate)
    takePlace(c, record, places)
    from = "(" .. gate .. US .. route .. BEHIND_US
  end
end

-- Permits of keys that moved. Those that came back open their gates.
local function moveHeld(c, work)
  local keys = {}
  for key in pairs(work.held) do keys[#keys + 1] = key end
  if #keys > 0 then loadKeyGates(c, keys) end
  for _, key in ipairs(keys) do
    local g, by = c.keyed[key], work.held[key]
    g.held = max(0, g.held + by)
    if by < 0 then work.wakes[key] = true end
  end
end

-- wakes: gates, or gate US route.
local function wakeAll(c, wakes)
  if next(wakes) == nil then return end
  local places = newPlaces()
  for wake in pairs(wakes) do
    local gate, route = match(wake, "^([^\31]*)\31(.*)$")
    if not gate then wakeGate(c, wake, places)
    else
      local record = firstParked(c, wake)
      if record then
        unpark(record, gate)
        takePlace(c, record, places)
      end
    end
  end
  writePlaces(places)
end

-- Routes with lanes that may go on are told, but not to the claim that offers them.
local function tellShown(c)
  c.told = c.told or {}
  for _, route in ipairs(c.shown or {}) do
    if not c.told[route] and not (c.offered and c.offered[route]) then
      c.told[route] = true
      setReady(c, route)
      push(c, "woken", route)
    end
  end
  c.shown = nil
end

local function writeLanes(c)
  local work, k, places = c.laneWork, c.k, newPlaces()
  c.laneWork = nil
  many("ZREM", k.line, work.gone)
  many("ZADD", k.line, work.come)
  many("ZREM", k.keeping, work.kept)
  many("ZADD", k.keeping, work.keeping)
  moveHeld(c, work)
  loadLanes(c, work.lanes)
  for _, lane in ipairs(work.lanes) do
    local record, moved = c.lanes[lane], work.moved[lane]
    showHead(c, work, record, headAfter(c, work, record, moved), places)
    takePlace(c, record, places)
    if moved.isFreed and record.handle ~= "" and record.parked == "" then push(c, "shown", record.route) end
  end
  writePlaces(places)
  wakeAll(c, work.wakes)
  writeRecordsOfLanes(c)
  writeKeyGates(c)
  tellShown(c)
end

-- Gates whose own clock lets somebody pass by now are opened, so many at most. Answers whether more are left.
local OPENED_AT_ONCE = 1000
local function openByClock(c)
  local gates = call("ZRANGEBYSCORE", c.k.opens, "-inf", c.at, "LIMIT", 0, OPENED_AT_ONCE)
  if #gates == 0 then return false end
  many("ZREM", c.k.opens, gates)
  local work = workOf(c)
  for _, gate in ipairs(gates) do work.wakes[gate] = true end
  writeLanes(c)
  return #gates == OPENED_AT_ONCE
end

-- The gates that a claim has looked at, and at which lanes wait, open by their clocks.
local function setClocks(c)
  for key, g in pairs(c.keyed or {}) do
    local at = (g.stepUs or g.closedUntil) and opensAt(g, g.tatUs, 1, c.now)
    if at and firstParked(c, key) then call("ZADD", c.k.opens, num(at), key) end
  end
end

-- The end of a claim: empty lanes that are not ahead of their queue are forgotten.
local function forgetTurns(c)
  local queues, idle = {}, c.life.idle
  for queue in pairs(c.turned or {}) do
    queues[queue] = true
    call("HSET", c.k.top, queue, num(c.tops[queue]))
  end
  for queue in pairs(idle or {}) do queues[queue] = true end
  for queue in pairs(queues) do
    local key, top = c.k.idle .. queue, num(topOf(c, queue))
    local lanes = call("ZRANGEBYSCORE", key, "-inf", top)
    many("HDEL", c.k.lane, lanes)
    many("ZREM", key, lanes)
    for _, lane in ipairs(lanes) do
      if c.lanes then c.lanes[lane] = nil end
    end
  end
  c.life.idle, c.turned = nil, nil
end
`;
