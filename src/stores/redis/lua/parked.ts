/**
 * Lanes that wait at the gate of a key (docs/decisions/0023), and the end of a call that has changed lanes.
 *
 * A lane is parked where looking at it would change nothing, by the call that shows its first job, else by the claim
 * that was refused. Either each gate that refuses its first job lets nobody
 * pass at all, or only the job's own cap refuses it: it waits at all of these. Or another lane of its route that is
 * refused by the same gate is open and stands ahead of it: that one **speaks** for those behind it at this gate. So of
 * a gate that may let somebody pass, one lane per route is open; and whenever that one takes a permit, goes away or
 * speaks for others instead, the next is opened.
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

-- The first lane that waits at a gate (prefix: gate, or gate US route) behind an entry, or from the head; its route;
-- and whether another waits behind it.
local function firstParked(c, prefix, from)
  local stop = "(" .. prefix .. BEHIND_US
  while true do
    local two = call("ZRANGE", c.k.parked, from or "[" .. prefix .. US, stop, "BYLEX", "LIMIT", "0", "2")
    local found = two[1]
    if not found then return nil end
    local gate, route, lane = match(found, "^([^\31]*)\31([^\31]*)\31[^\31]*\31(.*)$")
    if lane then
      loadLanes(c, { lane })
      local record = c.lanes[lane]
      local isThere = record.was.handle ~= "" and hasItem(record.was.parked, gate)
      if isThere and parkedEntry(gate, record) == found then return record, route, two[2] ~= nil end
    end
    -- No lane that waits here.
    call("ZREM", c.k.parked, found)
  end
end

-- A lane that waits is open again, and speaks for those behind it at this gate. Where nobody waits there, it need not:
-- who comes to wait later has met the gate closed, and is called when that opens.
local function unpark(record, gate, hasNext)
  record.parked, record.isTouched = "", true
  if hasNext then record.speaks = addItem(record.speaks, gate) end
end

-- Opens the first lane of each route that waits at a gate.
local function wakeGate(c, gate, places)
  local from, isMore = nil, true
  while isMore do
    local record, route, hasNext = firstParked(c, gate, from)
    if not record then return end
    unpark(record, gate, hasNext)
    takePlace(c, record, places)
    from, isMore = "(" .. gate .. US .. route .. BEHIND_US, hasNext
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
      local record, _, hasNext = firstParked(c, wake)
      if record then
        unpark(record, gate, hasNext)
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

-- The gates at which a lane waits whose first job has these; nothing where a claim has to look.
local function closedFor(c, laneGates)
  local closed = {}
  for _, use in ipairs(usesIn(laneGates)) do
    local g = keyGateOf(c, use.key)
    if isRefusing(g, use, use.weight, c.now) then
      if not isRefusing(g, use, 1, c.now) then return nil end
      closed[#closed + 1] = use.key
    elseif isOverOwnCap(g, use) then closed[#closed + 1] = use.key end
  end
  return closed[1] and closed
end

-- A lane waits at these gates: whoever sleeps is told, where their clocks open them.
local function setClocksOf(c, gates, route)
  for _, key in ipairs(gates) do
    local g = c.keyed[key]
    local at = (g.stepUs or g.closedUntil) and opensAt(g, g.tatUs, 1, c.now)
    if at then
      call("ZADD", c.k.opens, num(at), key)
      push(c, "shown", route)
    end
  end
end

-- A lane that shows a job that has come waits where its gates are closed.
local function parkNew(c, record, best)
  if not best or best.handle ~= record.handle or (best.gates or "") == "" then return end
  local closed = closedFor(c, best.gates)
  if not closed then return end
  record.parked = concat(closed, RS)
  setClocksOf(c, closed, record.route)
end

-- Where jobs come to a lane, the one that stands in its record stands in its line from now on.
local function unloadMoved(c, work)
  for _, lane in ipairs(work.lanes) do
    local record, moved = c.lanes[lane], work.moved[lane]
    if moved.best and record.alone == ALONE then
      local isGone = moved.gone and moved.gone[record.handle]
      if not isGone then add2(work.come, "0", lineEntry(lane, record.place, record.handle, record.route)) end
      record.alone, record.isTouched = "", true
    end
  end
end

local function writeLanes(c)
  local work, k, places = c.laneWork, c.k, newPlaces()
  c.laneWork = nil
  loadLanes(c, work.lanes)
  unloadMoved(c, work)
  many("ZREM", k.line, work.gone)
  many("ZADD", k.line, work.come)
  many("ZREM", k.keeping, work.kept)
  many("ZADD", k.keeping, work.keeping)
  moveHeld(c, work)
  for _, lane in ipairs(work.lanes) do
    local record, moved = c.lanes[lane], work.moved[lane]
    showHead(c, work, record, headAfter(c, work, record, moved), places)
    parkNew(c, record, moved.best)
    takePlace(c, record, places)
    if moved.isFreed and record.handle ~= "" and record.parked == "" then push(c, "shown", record.route) end
  end
  writePlaces(places)
  wakeAll(c, work.wakes)
  writeRecordsOfLanes(c)
  writeKeyGates(c)
  tellShown(c)
end

-- So many gates are opened by one call.
local OPENED_AT_ONCE = 1000
-- Behind the mark of keys in the byte order.
local BEHIND_MARK = "\n"

-- A limit was put: the keys behind this one at which lanes wait are opened. Where these are too many for one call, the
-- claims that come go on with it: among the gates that open stands where. Answers whether any are left.
local function wakeKeys(c, limit, behind)
  local first, work = limit .. KEY_MARK, workOf(c)
  local from, stop = behind == "" and "[" .. first or "(" .. behind .. BEHIND_US, "(" .. limit .. BEHIND_MARK
  for key, g in pairs(c.keyed or NONE) do
    if find(key, first, 1, true) == 1 then setBounds(c, g) end
  end
  for _ = 1, OPENED_AT_ONCE do
    local found = call("ZRANGE", c.k.parked, from, stop, "BYLEX", "LIMIT", "0", "1")[1]
    if not found then return false end
    behind = match(found, "^[^\31]*")
    work.wakes[behind] = true
    from = "(" .. behind .. BEHIND_US
  end
  call("ZADD", c.k.opens, c.at, limit .. US .. behind)
  return true
end

-- Gates whose own clock lets somebody pass by now are opened. Answers whether more are left.
local function openByClock(c)
  local gates = call("ZRANGEBYSCORE", c.k.opens, "-inf", c.at, "LIMIT", "0", num(OPENED_AT_ONCE))
  if #gates == 0 then return false end
  many("ZREM", c.k.opens, gates)
  local work, isMore = workOf(c), #gates == OPENED_AT_ONCE
  for _, gate in ipairs(gates) do
    local limit, behind = match(gate, "^([^\31]*)\31(.*)$")
    if limit then isMore = wakeKeys(c, limit, behind) or isMore else work.wakes[gate] = true end
  end
  writeLanes(c)
  return isMore
end

-- The gates that a claim has looked at, and at which lanes wait, open by their clocks.
local function setClocks(c)
  for key, g in pairs(c.keyed or {}) do
    local at = (g.stepUs or g.closedUntil) and opensAt(g, g.tatUs, 1, c.now) or g.opensAt
    if at and firstParked(c, key) then call("ZADD", c.k.opens, num(at), key) end
  end
end

-- The end of a claim: what queues have reached, and their empty lanes that are not ahead of it are forgotten.
local function writeTops(c)
  for queue in pairs(c.turned or {}) do
    local key, top = c.k.idle .. queue, num(c.tops[queue])
    call("HSET", c.k.top, queue, top)
    local lanes = call("ZRANGEBYSCORE", key, "-inf", top)
    many("HDEL", c.k.lane, lanes)
    many("ZREM", key, lanes)
    for _, lane in ipairs(c.lanes and lanes or NONE) do c.lanes[lane] = nil end
  end
  c.turned = nil
end
`;
