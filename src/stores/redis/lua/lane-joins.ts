/**
 * New jobs with lanes that are submitted as a set: they join the ends of their lines together. Most lanes have a first
 * job ahead of them or nothing at all, and one look at the record says which; a lane about which anything else is true
 * is noted, and shown as after any other change (lanes.ts).
 *
 *  c.joins   line: entries with their scores; lanes: each once; and by lane handle, place, route and gates of its first
 *            new job, and whether it is the only one
 */

export const laneJoinsLua = String.raw`
local function joinsOf(c)
  local joins = c.joins
  if not joins then
    joins = { line = {}, lanes = {}, handles = {}, places = {}, routes = {}, gates = {}, areMore = {} }
    c.joins = joins
  end
  return joins
end

-- A new ready job joins a lane.
local function joinLane(joins, place, h, route, lane, gates)
  add2(joins.line, "0", lineEntry(lane, place, h, route))
  local first = joins.places[lane]
  if not first then joins.lanes[#joins.lanes + 1] = lane else joins.areMore[lane] = true end
  -- Of the same place, the earlier one has the lower handle.
  if not first or place < first then
    joins.handles[lane], joins.places[lane], joins.routes[lane], joins.gates[lane] = h, place, route, gates
  end
end

-- Of a turn. That of the lane before is the same for most.
local function textOf(c, turn)
  if c.turnShown ~= turn then c.turnShown, c.turnText = turn, num(turn) end
  return c.turnText
end

-- A lane that was not there shows its first job. closed: the gates at which it waits. behind: what it knows of its line.
local function openLane(c, lane, handle, place, route, closed, behind, set, come, parked)
  local laned, turn = lanedOf(c, route), ""
  if laned and laned.byTurn then turn = textOf(c, topOf(c, laned.queue)) end
  local waits = closed and concat(closed, RS) or ""
  add2(set, lane, handle .. US .. place .. US .. route .. US .. turn .. US .. waits .. US .. US .. behind)
  if closed then
    local standing = turn ~= "" and placeText(tonumber(turn)) or place
    for _, gate in ipairs(closed) do add2(parked, "0", concat({ gate, route, standing .. handle, lane }, US)) end
    return setClocksOf(c, closed, route)
  end
  if not come[route] then push(c, "shown", route) end
  push2(come, route, turn ~= "" and turn or scoreIn(place), openEntry(lane, handle))
end

-- By lane the gates at which it waits, of those that were not there. Most gates let everybody pass: nothing is kept of
-- them, and nobody has put them.
local function closedLanes(c, joins, records)
  local keys, owners, closed, puts = {}, {}, {}, c.life.gates and c.life.gates.all or NONE
  for i, lane in ipairs(joins.lanes) do
    local gates = not records[i] and joins.gates[lane] or ""
    if gates ~= "" then
      for _, use in ipairs(usesIn(gates)) do keys[#keys + 1], owners[#owners + 1] = use.key, lane end
    end
  end
  local texts = fetch("HMGET", c.k.use, keys)
  for i, key in ipairs(keys) do
    local lane = owners[i]
    if closed[lane] == nil and (texts[i] or puts[key]) then closed[lane] = closedFor(c, joins.gates[lane]) or false end
  end
  return closed
end

-- Whether a new job of this place stands behind all that the record of a lane knows of its line.
local function isBehindKnown(text, place)
  local last = byte(text, -1)
  if last == US_BYTE then return true end
  return last ~= ALONE_BYTE and place >= sub(match(text, "^.*[\30\31](.*)\30$"), 1, #place)
end

local function writeJoins(c)
  local joins, set, come, parked = c.joins, {}, {}, {}
  c.joins = nil
  many("ZADD", c.k.line, joins.line)
  local records = fetch("HMGET", c.k.lane, joins.lanes)
  local closed = closedLanes(c, joins, records)
  for i, lane in ipairs(joins.lanes) do
    local text, handle, place, route = records[i], joins.handles[lane], joins.places[lane], joins.routes[lane]
    if not text then
      local behind = joins.areMore[lane] and "" or ALONE
      openLane(c, lane, handle, place, route, closed[lane], behind, set, come, parked)
    else
      local stop = find(text, US, 1, true) or 1
      if stop == 1 or place < sub(text, stop + 1, stop + #place) then
        local moved = noteLane(workOf(c), lane)
        local entry = { handle = handle, place = place, route = route, gates = joins.gates[lane] }
        if not moved.best or isAhead(entry, moved.best) then moved.best = entry end
      elseif not isBehindKnown(text, place) then add2(set, lane, match(text, "^.*\31")) end
    end
  end
  many("HSET", c.k.lane, set)
  for route, list in pairs(come) do many("ZADD", c.k.open .. route, list) end
  many("ZADD", c.k.parked, parked)
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end
`;
