/**
 * The usual claim by lanes, as a set: a stretch of open lanes of one route whose first jobs were never claimed before
 * and have to pass at most one gate, that of their key, which has a cap and nothing else. A stretch is a prefix of the
 * open lanes: it goes on as long as no next job of a lane that was taken from comes before the next lane. Whom its
 * own cap refuses is parked. At the first thing that is not usual the stretch ends, all of it is written, and the claim
 * goes on lane by lane (claim-lanes.ts).
 *
 *  s   a stretch: what was found of its lanes and their first jobs, by their places in the order; and what becomes of
 *      them, as the lists that are written at once
 */

export const laneStretchesLua = String.raw`
-- A claim that got fewer from a stretch goes on lane by lane: few lanes, or much that is not usual.
local STRETCH_MIN = 8
local PLACE_LENGTH = 17
-- So many lanes that are refused are passed over in a call.
local REFUSED_MAX = 2000

-- What bounds the gate of a key beside a cap of the job's own; false where that is more than a cap.
local function capOf(c, key)
  local gates = c.life.gates
  if not gates then return ANY end
  local limit = gates.all[limitOf(key)]
  if gates.all[key] or limit and limit.perKey and limit.perStepUs then return false end
  return limit and limit.perKey and limit.perCap or ANY
end

-- The open lanes of a route, and the texts of their first jobs; ends before an entry that is none.
local function lookStretch(c, p, route)
  local found = call("ZRANGE", c.k.open .. route, "0", num(p.wanted - p.taken - 1), "WITHSCORES")
  local handles, lanes, n = {}, {}, 0
  for i = 1, #found, 2 do
    local entry = found[i]
    local stop = find(entry, US, 1, true)
    if not stop then break end
    n = n + 1
    handles[n], lanes[n] = sub(entry, 1, stop - 1), sub(entry, stop + 1)
  end
  local laned = lanedOf(c, route)
  return {
    route = route, laned = laned, n = n, found = found, handles = handles, lanes = lanes,
    specs = fetch("HMGET", c.k.spec, handles), states = fetch("HMGET", c.k.state, handles),
    texts = fetch("HMGET", c.k.lane, lanes), top = laned.byTurn and topOf(c, laned.queue), boundAt = ANY,
    boundHandle = "", looked = 0, taken = {}, gone = {}, records = {}, emptied = {}, come = {}, idle = {}, parked = {},
    uses = {},
  }
end

-- Reads the jobs, up to the first that is not usual.
local function readStretch(c, s)
  local ids, flags, steps, keys, weights, caps, areOwn, wanted = {}, {}, {}, {}, {}, {}, {}, {}
  local uses = {}
  for i = 1, s.n do
    local spec, id, own, step, gates = s.specs[i], nil, nil, nil, nil
    if spec and not s.states[i] then id, own, step, gates = readAlike(spec, s.route, s.lanes[i], c.alike) end
    if id and gates ~= "" then
      local key, use = onlyUse(uses, gates)
      -- Also where the job has a cap of its own, nothing else may bound the key.
      local cap = key and capOf(c, key)
      if not cap then id = nil
      else
        keys[i], weights[i], caps[i], areOwn[i] = key, use.weight, use.cap or cap, use.cap ~= nil
        wanted[#wanted + 1] = key
      end
    end
    if not id then
      s.n = i - 1
      break
    end
    ids[i], flags[i], steps[i] = id, own, step
  end
  s.ids, s.flags, s.steps, s.keys, s.held = ids, flags, steps, keys, {}
  s.weights, s.caps, s.areOwn = weights, caps, areOwn
  for i, text in ipairs(fetch("HMGET", c.k.use, wanted)) do s.held[wanted[i]] = text or "" end
end

-- What is held of the gate of a key; nothing where more is known of it than that.
local function heldBefore(c, s, key)
  local held, g = s.held[key], c.keyed and c.keyed[key]
  if g and g.isShut then return nil end
  if type(held) == "string" then
    held = held == "" and 0 or tonumber(match(held, "^(%d+)\31" .. "0$"))
    s.held[key] = held
  end
  return held
end

-- Whether the gate of a job's key has room for it; nothing where it may refuse others as well.
local function hasRoom(c, s, i, key)
  local held = heldBefore(c, s, key)
  if not held then return nil end
  if held + s.weights[i] <= s.caps[i] then return true end
  if s.areOwn[i] then return false end
end

-- The place of a lane's first job, where the record is that of an open lane that speaks for nobody (argument-text.ts).
local function placeIn(s, text, h, turn)
  if turn ~= s.turn then s.turn, s.ending = turn, US .. s.route .. US .. turn .. US .. US end
  local behind = #h + PLACE_LENGTH + 2
  if #text ~= behind - 1 + #s.ending or not find(text, s.ending, behind, true) then return nil end
  if find(text, h, 1, true) == 1 then return sub(text, #h + 2, behind - 1) end
end

-- What stands behind a job in its line: handle, place, route; nothing at its end.
local function nextInLine(c, lane, entry)
  local found = call("ZRANGE", c.k.line, "(" .. entry, "+", "BYLEX", "LIMIT", "0", "1")[1]
  local from = #lane + 2
  if not found or find(found, US, 1, true) ~= from - 1 or sub(found, 1, from - 2) ~= lane then return nil end
  local behind = from + PLACE_LENGTH
  local stop = find(found, US, behind, true)
  return sub(found, behind, stop - 1), sub(found, from, behind - 1), sub(found, stop + 1)
end

-- Position and score of a place by rank. Many jobs have the place of the one before.
local function scoreAt(s, place)
  if place ~= s.place then s.place, s.position, s.score = place, rankIn(place), scoreIn(place) end
  return s.position, s.score
end

-- The turn of a lane behind a job that is taken at one.
local function turnBehind(s, at, step)
  if step ~= s.stepText then s.stepText, s.step = step, tonumber(step) or 0 end
  s.top = max(s.top, at)
  local turn = s.top + s.step
  if turn ~= s.next then s.next, s.nextText = turn, num(turn) end
  return turn, s.nextText
end

-- A lane shows what stands behind the job that was taken. Those of the route bound how far the stretch goes.
local function showNext(s, lane, handle, place, route, turn, position, score)
  add2(s.records, lane, handle .. US .. place .. US .. route .. US .. turn .. US .. US)
  push2(s.come, route, score, openEntry(lane, handle))
  if route ~= s.route or position > s.boundAt or position == s.boundAt and handle > s.boundHandle then return end
  s.boundAt, s.boundHandle = position, handle
end

-- Takes the first job of a lane. Answers false where what stands behind it is not usual.
local function takeLane(c, s, i, lane, place, at, turn)
  local entry, byTurn = lineEntry(lane, place, s.handles[i], s.route), s.laned.byTurn
  local handle, nextPlace, route = nextInLine(c, lane, entry)
  if handle and route ~= s.route then
    local laned = lanedOf(c, route)
    if not laned or laned.byTurn ~= byTurn then return false end
  end
  local position, score
  if byTurn then
    position, turn = turnBehind(s, at, s.steps[i])
    score = turn
  elseif handle then position, score = scoreAt(s, nextPlace) end
  s.gone[#s.gone + 1] = entry
  s.taken[#s.taken + 1] = i
  if handle then showNext(s, lane, handle, nextPlace, route, turn, position, score)
  elseif byTurn then
    add2(s.records, lane, US .. US .. US .. turn .. US .. US)
    add2(s.idle, turn, lane)
  else s.emptied[#s.emptied + 1] = lane end
  return true
end

-- A lane whose first job is refused by its own cap waits at that gate.
local function parkLane(s, lane, h, place, at, turn, key)
  local standing = s.laned.byTurn and placeText(at) or place
  add2(s.records, lane, concat({ h, place, s.route, turn, key, "" }, US))
  add2(s.parked, "0", concat({ key, s.route, standing .. h, lane }, US))
end

-- Takes and parks lanes, as long as they come before what lanes that were taken from show now.
local function takeLanes(c, s)
  local found, byTurn, at, score = s.found, s.laned.byTurn, nil, nil
  for i = 1, s.n do
    local h, lane, key, isOpen = s.handles[i], s.lanes[i], s.keys[i], true
    if found[i * 2] ~= score then
      score = found[i * 2]
      at = tonumber(score)
    end
    if s.boundAt < at or s.boundAt == at and s.boundHandle < h then break end
    local turn = byTurn and score or ""
    local place = placeIn(s, s.texts[i] or "", h, turn)
    if key then isOpen = hasRoom(c, s, i, key) end
    if not place or isOpen == nil then break end
    if not isOpen then parkLane(s, lane, h, place, at, turn, key)
    elseif not takeLane(c, s, i, lane, place, at, turn) then break
    elseif key then
      s.held[key] = s.held[key] + s.weights[i]
      s.uses[key] = s.held[key]
    end
    s.looked = i
  end
end

-- Writes where the lanes of a stretch stand now.
local function writeStretch(c, s)
  local k, uses, queue = c.k, {}, s.laned.queue
  many("ZREM", k.line, s.gone)
  call("ZREMRANGEBYRANK", k.open .. s.route, "0", num(s.looked - 1))
  for route, list in pairs(s.come) do
    many("ZADD", k.open .. route, list)
    if route ~= s.route then push(c, "shown", route) end
  end
  many("ZADD", k.parked, s.parked)
  many("HSET", k.lane, s.records)
  many("HDEL", k.lane, s.emptied)
  many("ZADD", k.idle .. queue, s.idle)
  for key, held in pairs(s.uses) do
    local g, text = c.keyed and c.keyed[key], (held == 1 and "1" or num(held)) .. US .. "0"
    if g then g.held, g.text = held, text end
    add2(uses, key, text)
  end
  many("HSET", k.use, uses)
  if s.laned.byTurn and #s.taken > 0 then
    c.turned = c.turned or {}
    c.tops[queue], c.turned[queue] = s.top, true
  end
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end

-- Leases what was taken of a stretch.
local function leaseStretch(c, p, s, starts)
  local states, leases, ready = c.states or {}, c.zadd[c.k.lease] or {}, p.ready[s.route] or {}
  c.states, c.zadd[c.k.lease], p.ready[s.route] = states, leases, ready
  local n, z, r = #states, #leases, #ready
  for _, i in ipairs(s.taken) do
    local h, id, own, isStarted = s.handles[i], s.ids[i], s.flags[i], p.taken < starts
    local first = firstOf(c, s.route, p.owner, p.endsAt, isStarted, own)
    states[n + 1], states[n + 2] = h, first.before .. id .. first.behind
    n = n + 2
    leases[z + 1], leases[z + 2] = p.endsAt, h
    z = z + 2
    r = r + 1
    ready[r] = h
    local g = first.bundle
    g.n = g.n + 1
    g[g.n] = id
    handOut(c, h, s.specs[i])
    p.taken = p.taken + 1
  end
end

-- Whether the inputs of a stretch stay below the bound of the call: near it, they are looked at one by one.
local function isBelowBound(c, s)
  local bytes = c.bytes
  for i = 1, s.n do bytes = bytes + (s.specs[i] and #s.specs[i] or 0) end
  if bytes >= c.bytesMax then return false end
  c.bytes = bytes
  return true
end

-- Takes stretches as long as they are worth it. Routes that have gates are looked at job by job.
local function takeStretches(c, p, route, starts)
  if not HAS_PLAIN_ROADS or c.hasRung or usesOf(c, route) or not lanedOf(c, route) then return end
  while p.taken < p.wanted and p.refused < REFUSED_MAX do
    local s = lookStretch(c, p, route)
    readStretch(c, s)
    if s.n == 0 or not isBelowBound(c, s) then return end
    takeLanes(c, s)
    if s.looked == 0 then return end
    p.refused = p.refused + s.looked - #s.taken
    writeStretch(c, s)
    leaseStretch(c, p, s, starts)
    if s.looked < STRETCH_MIN then return end
  end
end
`;
