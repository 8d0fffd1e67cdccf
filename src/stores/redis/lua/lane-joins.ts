/**
 * New jobs with lanes that are submitted as a set: they join the ends of their lines together. Most lanes have a first
 * job ahead of them or nothing at all, and one look at the record says which; a lane about which anything else is true
 * is noted, and shown as after any other change (lanes.ts).
 *
 *  c.joins   line: entries with their scores; lanes: each once; and by lane handle, place and route of its first new job
 */

export const laneJoinsLua = String.raw`
local function joinsOf(c)
  local joins = c.joins
  if not joins then
    joins = { line = {}, lanes = {}, handles = {}, places = {}, routes = {} }
    c.joins = joins
  end
  return joins
end

-- A new ready job joins a lane.
local function joinLane(joins, lane, place, h, route)
  add2(joins.line, "0", lineEntry(lane, place, h, route))
  local first = joins.places[lane]
  if not first then joins.lanes[#joins.lanes + 1] = lane end
  -- Of the same place, the earlier one has the lower handle.
  if not first or place < first then joins.handles[lane], joins.places[lane], joins.routes[lane] = h, place, route end
end

-- A lane that was not there shows its first job.
local function openLane(c, lane, handle, place, route, set, come)
  local laned, turn = lanedOf(c, route), ""
  if laned and laned.byTurn then turn = num(topOf(c, laned.queue)) end
  add2(set, lane, handle .. US .. place .. US .. route .. US .. turn .. US .. US)
  if not come[route] then push(c, "shown", route) end
  push2(come, route, turn ~= "" and turn or scoreIn(place), openEntry(lane, handle))
end

local function writeJoins(c)
  local joins, set, come = c.joins, {}, {}
  c.joins = nil
  many("ZADD", c.k.line, joins.line)
  local records = fetch("HMGET", c.k.lane, joins.lanes)
  for i, lane in ipairs(joins.lanes) do
    local text, handle, place, route = records[i], joins.handles[lane], joins.places[lane], joins.routes[lane]
    if not text then openLane(c, lane, handle, place, route, set, come)
    else
      local head, headPlace = match(text, "^([^\31]*)\31([^\31]*)")
      if not headPlace or head == "" or place < headPlace then
        local moved, entry = noteLane(workOf(c), lane), { handle = handle, place = place, route = route }
        if not moved.best or isAhead(entry, moved.best) then moved.best = entry end
      end
    end
  end
  many("HSET", c.k.lane, set)
  for route, list in pairs(come) do many("ZADD", c.k.open .. route, list) end
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end
`;
