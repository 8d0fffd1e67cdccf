/**
 * New jobs with lanes that are submitted as a set: they join the ends of their lines together. Most lanes have a first
 * job ahead of them or nothing at all, and one look at the record says which; a lane about which anything else is true
 * is noted, and shown as after any other change (lanes.ts).
 *
 *  c.joins   line: entries of all but the first new job of a lane, with their scores; lanes: each once; and by lane handle,
 *            place, route and gates of its first new job, and whether there are more
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
  local first = joins.places[lane]
  if not first then joins.lanes[#joins.lanes + 1] = lane
  else
    joins.areMore[lane] = true
    -- Of the same place, the earlier one has the lower handle.
    if place >= first then return add2(joins.line, "0", lineEntry(lane, place, h, route)) end
    add2(joins.line, "0", lineEntry(lane, first, joins.handles[lane], joins.routes[lane]))
  end
  joins.handles[lane], joins.places[lane], joins.routes[lane], joins.gates[lane] = h, place, route, gates
end

-- Of a turn. That of the lane before is the same for most.
local function textOf(c, turn)
  if c.turnShown ~= turn then c.turnShown, c.turnText = turn, num(turn) end
  return c.turnText
end

-- Of a record that shows one job and may show several behind it.
local FRESH = "1" .. US

-- A lane that was not there shows its first job. closed: the gates at which it waits. behind: what it knows of its line.
local function openLane(c, lane, handle, place, route, closed, behind, set, come, parked)
  local laned, turn = lanedOf(c, route), ""
  if laned and laned.byTurn then turn = textOf(c, topOf(c, laned.queue)) end
  local waits = closed and concat(closed, RS) or ""
  local head, tail = (closed and US or FRESH) .. US .. handle .. US .. place .. US .. route .. US, US .. US .. behind
  add2(set, lane, head .. turn .. US .. waits .. tail)
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
  local texts, ones = fetch("HMGET", c.k.use, keys), fetch("HMGET", c.k.one, keys)
  for i, key in ipairs(keys) do
    local lane = owners[i]
    if closed[lane] == nil and (texts[i] or ones[i] or puts[key]) then
      closed[lane] = closedFor(c, joins.gates[lane]) or false
    end
  end
  return closed
end

-- The last job in a record with what stands around it is no longer than this.
local LAST_MAX = 44

-- The place of the last job that the record of a lane has; first: that of the first one.
local function lastPlace(text, first)
  local last = match(sub(text, -LAST_MAX), "^.*[\30\31]([^\30]*)\30.$")
  return last and sub(last, 1, PLACE_LENGTH) or first
end

-- So long is a record at most that a new job joins: it is read and written with each job that comes and goes.
local JOINED_MAX = 120

-- The first new job of a lane that has a record. Answers the record where it changes; whether the job joins the line; and
-- whether the lane has to be shown anew.
local function joinRecord(text, handle, place, route, areMore)
  local at = handleAt(text)
  local stop = find(text, US, at, true)
  if stop == at then return nil, true, true end
  local first, ending, mark = sub(text, stop + 1, stop + PLACE_LENGTH), US .. route .. US, byte(text, -1)
  if place < first then return nil, true, true end
  if mark == US_BYTE then return nil, true, false end
  if place < lastPlace(text, first) then return nil, true, true end
  if mark == MORE_BYTE then return nil, true, false end
  local routeAt = stop + 1 + PLACE_LENGTH
  local isJoining = not areMore and #text < JOINED_MAX and find(text, ending, routeAt, true) == routeAt
  if isJoining then return sub(text, 1, -2) .. place .. handle .. RS .. ALONE, false, false end
  return sub(text, 1, -2) .. MORE, true, false
end

local function writeJoins(c)
  local joins, set, come, parked = c.joins, {}, {}, {}
  local line, records = joins.line, fetch("HMGET", c.k.lane, joins.lanes)
  c.joins = nil
  local closed = closedLanes(c, joins, records)
  for i, lane in ipairs(joins.lanes) do
    local text, handle, place, route = records[i], joins.handles[lane], joins.places[lane], joins.routes[lane]
    local isInLine, isFirst = joins.areMore[lane], false
    if not text then
      openLane(c, lane, handle, place, route, closed[lane], isInLine and "" or ALONE, set, come, parked)
    else
      text, isInLine, isFirst = joinRecord(text, handle, place, route, isInLine)
      if text then add2(set, lane, text) end
    end
    if isInLine then add2(line, "0", lineEntry(lane, place, handle, route)) end
    if isFirst then
      local moved = noteLane(workOf(c), lane)
      local entry = { handle = handle, place = place, route = route, gates = joins.gates[lane] }
      if not moved.best or isAhead(entry, moved.best) then moved.best = entry end
    end
  end
  many("ZADD", c.k.line, line)
  many("HSET", c.k.lane, set)
  for route, list in pairs(come) do many("ZADD", c.k.open .. route, list) end
  many("ZADD", c.k.parked, parked)
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end
`;
