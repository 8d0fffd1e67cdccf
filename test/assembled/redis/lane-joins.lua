-- groups/lane-joins
module(function()
local add2, fetch, hintOpened, joinTurn, lanedOf = M.add2, M.fetch, M.hintOpened, M.joinTurn, M.lanedOf
local laneInBody, lineEntry, many, NONE, noteCome = M.laneInBody, M.lineEntry, M.many, M.NONE, M.noteCome
local noteOpen, num, openEntry, placeText, push2 = M.noteOpen, M.num, M.openEntry, M.placeText, M.push2
local scoreIn, topOf, usesIn, waitEntry, waitsAt = M.scoreIn, M.topOf, M.usesIn, M.waitEntry, M.waitsAt
local workOf = M.workOf

local function joinsOf(c)
  local joins = c.joins
  if not joins then
    joins = { all = {}, different = {}, first = {}, last = { before = HOLE } }
    c.joins = joins
  end
  return joins
end

-- A new ready job joins a lane.
local function joinLane(joins, place, h, route, body)
  local lane, gates = laneInBody(body, joins.last)
  local entry = { lane = lane, handle = h, place = place, route = route, gates = gates }
  joins.all[#joins.all + 1] = entry
  if not joins.first[lane] then
    joins.first[lane], joins.different[#joins.different + 1] = entry, lane
  end
end

-- By lane the gates at which it waits, of those that were not there. Most gates let everybody pass: nothing is kept of
-- them, and nobody has put them.
local function closedLanes(c, joins, records)
  local keys, owners, closed, puts = {}, {}, {}, c.life.gates and c.life.gates.all or NONE
  for i, lane in ipairs(joins.different) do
    local gates = not records[i] and joins.first[lane].gates or ""
    if gates ~= "" then
      for _, use in ipairs(usesIn(gates)) do
        keys[#keys + 1], owners[#owners + 1] = use.key, lane
      end
    end
  end
  local texts, ones = fetch("HMGET", c.k.use, keys), fetch("SMISMEMBER", c.k.one, keys)
  for i, key in ipairs(keys) do
    local lane = owners[i]
    if not closed[lane] and (texts[i] or ones[i] == 1 or puts[key]) then
      local first = joins.first[lane]
      closed[lane] = waitsAt(c, first.gates, first.route)
    end
  end
  return closed
end

-- A short hash is a list that is searched from its head, with each lane that is read or written: a long entry makes a
-- table of it. From this many lanes at once it is worth asking.
local ASKED_MIN = 8

local function setMany(key, list)
  many("HSET", key, list)
  if #list < 2 * ASKED_MIN or call("OBJECT", "ENCODING", key) == "hashtable" then return end
  call("HSET", key, LONG_ENTRY, "")
  call("HDEL", key, LONG_ENTRY)
end

-- A lane that was not there gets its first job. gates: those at which it waits.
local function addLane(c, lists, entry, gates)
  local lane, h, place, route, laned = entry.lane, entry.handle, entry.place, entry.route, lanedOf(c, entry.route)
  local turn = laned and laned.byTurn and num(joinTurn(topOf(c, laned.queue))) or ""
  add2(lists.set, lane, concat({ h, place, route, turn, concat(gates, RS) }, US))
  if gates[1] then
    local standing = turn ~= "" and placeText(tonumber(turn)) or place
    for _, gate in ipairs(gates) do
      add2(lists.waits, "0", waitEntry(gate, route, standing, h, lane))
    end
  else
    if not lists.open[route] then noteOpen(c, route) end
    push2(lists.open, route, turn ~= "" and turn or scoreIn(place), openEntry(lane, h))
  end
end

local function writeJoins(c)
  local joins, places, isNoted = c.joins, {}, {}
  local line, lists = {}, { set = {}, waits = {}, open = {} }
  local records = fetch("HMGET", c.k.lane, joins.different)
  local closed = closedLanes(c, joins, records)
  c.joins = nil
  -- The place of the first job of each lane that is there; "" if nobody stands in its line.
  for i, lane in ipairs(joins.different) do
    if records[i] then places[lane] = match(records[i], "^[^\31]+\31([^\31]*)") or "" end
  end
  for _, entry in ipairs(joins.all) do
    local lane, place = entry.lane, entry.place
    local first = places[lane]
    isNoted[lane] = isNoted[lane] or first == "" or first and place < first
    if isNoted[lane] then
      noteCome(workOf(c), lane, entry)
    else
      add2(line, "0", lineEntry(lane, place, entry.handle, entry.route))
      if not first then
        addLane(c, lists, entry, closed[lane] or NONE)
        places[lane] = place
      end
    end
  end
  many("ZADD", c.k.line, line)
  setMany(c.k.lane, lists.set)
  for route, list in pairs(lists.open) do
    many("ZADD", c.k.open .. route, list)
  end
  many("ZADD", c.k.waits, lists.waits)
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  hintOpened(c)
end

M.joinsOf, M.joinLane, M.writeJoins = joinsOf, joinLane, writeJoins
end)
