/**
 * New jobs with lanes that are submitted as a set: they join the ends of their lines together. A job that comes behind
 * all that its lane shows, of the same route and step, is shown with them at once, up to SHOWN_MAX (lane-shown.ts);
 * behind others that are not shown it only stands in the line. The only job of a lane stands in its record. A lane
 * about which anything else is true is noted, and shown as after any other change (lanes.ts).
 *
 * Of jobs that come in one call and have to pass a gate of their lane, only the first is shown: they would be looked at
 * together, and where one runs at a time all others would have to be hidden again.
 *
 *  c.joins   by number handles, places, kinds, gates and lanes of all; different: each
 *            lane once; isKnown: by lane the number of its first new job. kinds: what jobs of a route and a step share
 */

export const laneJoinsLua = String.raw`
local function joinsOf(c)
  local joins = c.joins
  if not joins then
    joins = {
      n = 0, handles = {}, places = {}, kinds = {}, gates = {}, lanes = {}, different = {}, isKnown = {},
      last = { before = HOLE }, kind = { route = HOLE }, allKinds = {},
    }
    c.joins = joins
  end
  return joins
end

-- Of jobs of a route and a step.
local function meetKind(joins, route, step)
  local name = route .. US .. step
  local kind = joins.allKinds[name] or { route = route, step = step }
  joins.allKinds[name], joins.kind = kind, kind
  return kind
end

-- What they have in the records and entries of their lanes. Routes that are new in the call are known by now.
local function prepareKind(c, kind)
  local laned, route = lanedOf(c, kind.route), kind.route
  kind.byTurn = laned and laned.byTurn
  local own, ending = kind.byTurn and kind.step or "", US .. route .. US .. US .. US .. US .. ALONE
  kind.queue, kind.head, kind.mid, kind.by = kind.byTurn and laned.queue, US .. own .. US, RS .. own, tonumber(own) or 0
  kind.before, kind.behind, kind.score = kind.byTurn and HOLE or ending, ending, false
end

-- A new ready job joins a lane.
local function joinLane(joins, place, h, route, body)
  local lane, step, gates = laneInBody(body, joins.last)
  local n, kind = joins.n + 1, joins.kind
  if kind.route ~= route or kind.step ~= step then kind = meetKind(joins, route, step) end
  joins.n, joins.handles[n], joins.places[n], joins.kinds[n], joins.gates[n], joins.lanes[n] = n, h, place, kind, gates, lane
  if not joins.isKnown[lane] then
    joins.isKnown[lane], joins.different[#joins.different + 1] = n, lane
  end
end

-- A lane that was not there shows its first job. closed: the gates at which it waits.
local function openLane(c, kind, lane, handle, place, closed, come, parked)
  local route, turn = kind.route, ""
  if kind.byTurn then
    local top = topOf(c, kind.queue)
    if kind.top ~= top then kind.top, kind.topText = top, num(top) end
    turn = kind.topText
  end
  local head = (closed and "" or SHOWN[1]) .. kind.head .. handle .. US .. place .. US .. route .. US .. turn .. US
  if not closed then
    if not come[route] then push(c, "shown", route) end
    push2(come, route, turn ~= "" and turn or scoreIn(place), handle .. US .. lane)
    return head .. US .. US .. ALONE
  end
  local standing = turn ~= "" and placeText(tonumber(turn)) or place
  for _, gate in ipairs(closed) do add2(parked, "0", concat({ gate, route, standing .. handle, lane }, US)) end
  setClocksOf(c, closed, route)
  return head .. concat(closed, RS) .. US .. US .. ALONE
end

-- By lane the gates at which it waits, of those that were not there. Most gates let everybody pass: nothing is kept of
-- them, and nobody has put them.
local function closedLanes(c, joins, records)
  local keys, owners, closed, puts = {}, {}, {}, c.life.gates and c.life.gates.all or NONE
  for i, lane in ipairs(joins.different) do
    local gates = not records[i] and joins.gates[joins.isKnown[lane]] or ""
    if gates ~= "" then
      for _, use in ipairs(usesIn(gates)) do keys[#keys + 1], owners[#owners + 1] = use.key, lane end
    end
  end
  local texts, ones = fetch("HMGET", c.k.use, keys), fetch("SMISMEMBER", c.k.one, keys)
  for i, key in ipairs(keys) do
    local lane = owners[i]
    if closed[lane] == nil and (texts[i] or ones[i] == 1 or puts[key]) then
      closed[lane] = closedFor(c, joins.gates[joins.isKnown[lane]]) or false
    end
  end
  return closed
end

-- The kind meets a lane whose last shown job has another turn than that of the lane before. Answers whether the lane is
-- open on its route.
local function meetTurn(kind, text, at)
  local route, turn = match(text, "^\31([^\31]*)\31(%-?%d+)\31\31\31%.$", at)
  if not kind.byTurn or route ~= kind.route then return false end
  kind.before, kind.score = sub(text, at), num(tonumber(turn) + kind.by)
  kind.behind = US .. route .. US .. kind.score .. US .. US .. US .. ALONE
  return true
end

-- A new job of a lane that has a record. Answers the record where it changes, and whether the lane has to be shown anew.
-- mayShow: whether the job may be shown with others. line: what joins lines, to which a job in the record is added.
local function joinRecord(kind, text, lane, handle, place, mayShow, come, line)
  local isLike = find(text, kind.head, 2, true) == 2
  local at = isLike and 2 + #kind.head or handleAt(text)
  local stop = at and find(text, US, at, true)
  -- An empty lane that keeps its turn, or what cannot be read.
  if not stop or stop == at then return nil, true end
  local behind = stop + 1 + PLACE_LENGTH
  if place < sub(text, stop + 1, behind - 1) then return nil, true end
  if byte(text, -1) ~= ALONE_BYTE then return nil, false end
  local shown = byte(text) - ZERO_BYTE
  if shown < 2 then
    local route = match(text, "^[^\31]*", behind + 1)
    add2(line, "0", lane .. US .. sub(text, stop + 1, behind - 1) .. sub(text, at, stop - 1) .. US .. route)
  end
  if mayShow and isLike and shown > 0 and shown < SHOWN_MAX
    and (find(text, kind.before, behind, true) == behind or meetTurn(kind, text, behind)) then
    push2(come, kind.route, kind.score or scoreIn(place), handle .. US .. lane .. kind.mid)
    return SHOWN[shown + 1] .. kind.head .. handle .. US .. place .. kind.behind, false
  end
  return sub(text, 1, -2), false
end

-- The job joins its line with whatever else is done to its lane: what that shows must be known before.
local function noteFirst(c, joins, i)
  local work = workOf(c)
  local moved = noteLane(work, joins.lanes[i])
  local entry = { handle = joins.handles[i], place = joins.places[i], route = joins.kinds[i].route, gates = joins.gates[i] }
  add2(work.come, "0", lineEntry(joins.lanes[i], entry.place, entry.handle, entry.route))
  if not moved.best or isAhead(entry, moved.best) then moved.best = entry end
end

-- A short hash is a list that is searched from its head, with each lane that is read or written: a long entry makes a table
-- of it. So many lanes at once are worth asking.
local ASKED_MIN = 8

local function setMany(key, list)
  many("HSET", key, list)
  if #list < 2 * ASKED_MIN or call("OBJECT", "ENCODING", key) == "hashtable" then return end
  call("HSET", key, LONG_ENTRY, "")
  call("HDEL", key, LONG_ENTRY)
end

local function writeJoins(c)
  local joins, set, come, parked, texts, isNew, line = c.joins, {}, {}, {}, {}, {}, {}
  local different, handles, places, lanes, kinds = joins.different, joins.handles, joins.places, joins.lanes, joins.kinds
  local gates, isKnown = joins.gates, joins.isKnown
  local records = fetch("HMGET", c.k.lane, different)
  c.joins = nil
  local closed = closedLanes(c, joins, records)
  for _, kind in pairs(joins.allKinds) do prepareKind(c, kind) end
  for i, lane in ipairs(different) do texts[lane] = records[i] end
  for i = 1, joins.n do
    local lane, h, place, kind = lanes[i], handles[i], places[i], kinds[i]
    local text, changed, isFirst = texts[lane], nil, false
    if not text then changed = openLane(c, kind, lane, h, place, closed[lane], come, parked)
    else
      changed, isFirst = joinRecord(kind, text, lane, h, place, isKnown[lane] == i or gates[i] == "", come, line)
      if isFirst then noteFirst(c, joins, i) else add2(line, "0", lane .. US .. place .. h .. US .. kind.route) end
    end
    if changed then texts[lane], isNew[lane] = changed, true end
  end
  for _, lane in ipairs(different) do
    if isNew[lane] then add2(set, lane, texts[lane]) end
  end
  many("ZADD", c.k.line, line)
  setMany(c.k.lane, set)
  for route, list in pairs(come) do many("ZADD", c.k.open .. route, list) end
  many("ZADD", c.k.parked, parked)
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end
`;
