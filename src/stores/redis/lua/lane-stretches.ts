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

-- The open lanes of a route, and the texts of their first jobs; ends before an entry that is none.
local function lookStretch(c, p, route)
  local found = call("ZRANGE", c.k.open .. route, "0", num(p.wanted - p.taken - 1))
  local handles, lanes = {}, {}
  for i = 1, #found do
    local entry = found[i]
    local stop = find(entry, US, 1, true)
    if not stop then break end
    handles[i], lanes[i] = sub(entry, 1, stop - 1), sub(entry, stop + 1)
  end
  local laned, ending = lanedOf(c, route), US .. route .. US .. US .. US .. US
  return {
    route = route, laned = laned, byTurn = laned.byTurn, n = #handles, handles = handles, lanes = lanes,
    specs = fetch("HMGET", c.k.spec, handles), states = fetch("HMGET", c.k.state, handles),
    texts = fetch("HMGET", c.k.lane, lanes), ids = {}, kinds = {}, keys = {}, held = {}, looked = 0, taken = {},
    gone = {}, records = {}, emptied = {}, come = {}, idle = {}, parked = {}, uses = {}, ranks = {}, scores = {},
    behindHandle = US .. route, turn = "", at = false, ending = ending, top = laned.byTurn and topOf(c, laned.queue),
    step = false, next = false, nextText = "", middle = ending,
  }
end

-- Reads the jobs, up to the first that is not usual or with which their inputs may reach the bound of the call.
local function readStretch(c, s)
  local specs, states, lanes, ids, kinds, keys = s.specs, s.states, s.lanes, s.ids, s.kinds, s.keys
  local kind, bytes, wanted, puts = c.alike[s.route], c.bytes, {}, c.life.gates and c.life.gates.all or NONE
  for i = 1, s.n do
    local spec, lane, id, key = specs[i], lanes[i], nil, nil
    if spec and not states[i] then
      bytes = bytes + #spec
      if kind then id, key = readLike(kind, spec, lane) end
      if not id then kind, id, key = kindOf(c, spec, s.route, lane) end
    end
    if not id or bytes >= c.bytesMax or key and (puts[key] or not kind.cap) then
      s.n = i - 1
      break
    end
    ids[i], kinds[i] = id, kind
    if key then
      keys[i] = key
      wanted[#wanted + 1] = key
    end
  end
  -- Of a gate about which more is known than what is held of it, that is nothing.
  for i, text in ipairs(fetch("HMGET", c.k.use, wanted)) do
    local key = wanted[i]
    local g = c.keyed and c.keyed[key]
    s.held[key] = not (g and g.isShut) and tonumber(text or 0)
  end
end

-- The record of a lane has another turn than the one before it: from here on, lanes stand at that one. Answers whether it
-- is the record of an open lane that speaks for nobody.
local function meetTurn(s, text, endingAt)
  local turn = s.byTurn and match(text, "^\31[^\31]*\31(%d+)\31", endingAt)
  if not turn then return false end
  s.turn, s.at, s.ending = turn, tonumber(turn), US .. s.route .. US .. turn .. US .. US .. US
  return find(text, s.ending, endingAt, true) == endingAt
end

-- The turn of lanes behind a job of this step that is taken now.
local function moveTurn(s, step)
  s.top, s.step = max(s.top, s.at), step
  s.next = s.top + (tonumber(step) or 0)
  s.nextText = num(s.next)
  s.middle = US .. s.route .. US .. s.nextText .. US .. US .. US
end

-- The rank of a place. Many jobs have the same.
local function rankAt(s, place)
  local rank = rankIn(place)
  s.ranks[place], s.scores[place] = rank, scoreIn(place)
  return rank
end

-- What stands behind a job, as the record of a lane knows it; and the entry of the next one.
local function lookBehind(c, s, lane, entry)
  local stop = "(" .. lane .. BEHIND_US
  local entries = call("ZRANGE", c.k.line, "(" .. entry, stop, "BYLEX", "LIMIT", "0", num(KNOWN_MAX + 1))
  return knownOf(lane, s.route, entries), entries[1]
end

-- A lane shows a job of another route. Answers false where that goes by another order.
local function showOther(c, s, lane, entry)
  local next = inLine(lane, entry)
  local laned = lanedOf(c, next.route)
  if not laned or laned.byTurn ~= s.byTurn then return false end
  local score = s.byTurn and s.nextText or scoreIn(next.place)
  add2(s.records, lane, concat({ next.handle, next.place, next.route, s.nextText, "", "", "" }, US))
  push2(s.come, next.route, score, openEntry(lane, next.handle))
  return true
end

-- Nobody stands behind the job that was taken.
local function emptyLane(s, lane)
  if s.byTurn then
    add2(s.records, lane, US .. US .. US .. s.nextText .. US .. US .. US)
    add2(s.idle, s.nextText, lane)
  else s.emptied[#s.emptied + 1] = lane end
end

-- A lane whose first job is refused by its own cap waits at that gate.
local function parkLane(s, lane, h, place, key, behind)
  local standing = s.byTurn and placeText(s.at) or place
  add2(s.records, lane, concat({ h, place, s.route, s.turn, key, "", behind }, US))
  add2(s.parked, "0", concat({ key, s.route, standing .. h, lane }, US))
end

-- Takes and parks lanes, as long as they come before what lanes that were taken from show now. What stands behind a job
-- that was taken is in the text of its lane, or is looked up; it becomes the first of the lane.
local function takeLanes(c, s)
  local handles, lanes, texts, kinds, keys, held, byTurn = s.handles, s.lanes, s.texts, s.kinds, s.keys, s.held, s.byTurn
  local taken, gone, records, uses, ranks, behindHandle = s.taken, s.gone, s.records, s.uses, s.ranks, s.behindHandle
  local come, boundAt, boundHandle = newList(s.come, s.route), ANY, ""
  for i = 1, s.n do
    local h, lane, text, key, kind = handles[i], lanes[i], texts[i] or "", keys[i], kinds[i]
    local endingAt = #h + PLACE_LENGTH + 2
    if find(text, h, 1, true) ~= 1 then break end
    if find(text, s.ending, endingAt, true) ~= endingAt and not meetTurn(s, text, endingAt) then break end
    local place = sub(text, endingAt - PLACE_LENGTH, endingAt - 1)
    local at = byTurn and s.at or ranks[place] or rankAt(s, place)
    if boundAt < at or boundAt == at and boundHandle < h then break end
    local behindAt, before = endingAt + #s.ending, key and held[key]
    if key and not before then break end
    if key and before + kind.weight > kind.cap then
      if not kind.isOwnCap then break end
      parkLane(s, lane, h, place, key, sub(text, behindAt))
    else
      if byTurn and (at > s.top or kind.step ~= s.step) then moveTurn(s, kind.step) end
      local entry, first, other = lane .. US .. place .. h .. behindHandle, byte(text, behindAt), nil
      if not first then
        text, other = lookBehind(c, s, lane, entry)
        first, behindAt = byte(text), 1
      end
      if first == ALONE_BYTE then emptyLane(s, lane)
      elseif first then
        local placeEnd, stop, n = behindAt + PLACE_LENGTH, find(text, RS, behindAt, true), #records
        place, h = sub(text, behindAt, placeEnd - 1), sub(text, placeEnd, stop - 1)
        local position = byTurn and s.next or ranks[place] or rankAt(s, place)
        records[n + 1], records[n + 2] = lane, h .. US .. place .. s.middle .. sub(text, stop + 1)
        n = #come
        come[n + 1], come[n + 2] = byTurn and s.nextText or s.scores[place], h .. US .. lane
        if position < boundAt or position == boundAt and h < boundHandle then boundAt, boundHandle = position, h end
      elseif not showOther(c, s, lane, other) then break end
      gone[#gone + 1], taken[#taken + 1] = entry, i
      if key then
        local n, by = #uses, before + kind.weight
        held[key] = by
        uses[n + 1], uses[n + 2] = key, by == 1 and "1" or num(by)
      end
    end
    s.looked = i
  end
end

-- Writes where the lanes of a stretch stand now.
local function writeStretch(c, s)
  local k, queue = c.k, s.laned.queue
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
  many("HSET", k.use, s.uses)
  for key, g in pairs(c.keyed or NONE) do
    if s.held[key] then g.held, g.text = s.held[key], s.held[key] > 0 and num(s.held[key]) or "" end
  end
  if s.byTurn and #s.taken > 0 then
    c.turned = c.turned or {}
    c.tops[queue], c.turned[queue] = s.top, true
  end
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end

-- Leases what was taken of a stretch.
local function leaseStretch(c, p, s, starts)
  local handles, specs, ids, kinds, keys, outHandles, out = s.handles, s.specs, s.ids, s.kinds, s.keys, c.handles, c.out
  local lease = c.k.lease
  local states, leases, ready = c.states or {}, c.zadd[lease] or {}, p.ready[s.route] or {}
  c.states, c.zadd[lease], p.ready[s.route] = states, leases, ready
  local endsAt, n, z, r, o, bytes = p.endsAt, #states, #leases, #ready, #out, c.bytes
  local taken, kind, wasStarted, first, g = p.taken, nil, nil, nil, nil
  for at = 1, #s.taken do
    local i = s.taken[at]
    local h, id, spec, isStarted = handles[i], ids[i], specs[i], taken < starts
    if kinds[i] ~= kind or isStarted ~= wasStarted then
      kind, wasStarted = kinds[i], isStarted
      first = firstOf(c, s.route, p.owner, endsAt, isStarted, kind.own)
      g = first.bundle
    end
    states[n + 1] = h
    if keys[i] then states[n + 2] = first.before .. id .. first.behind .. kind.prefix .. keys[i]
    else states[n + 2] = first.before .. id .. first.behind end
    leases[z + 1], leases[z + 2] = endsAt, h
    n, z, r, o = n + 2, z + 2, r + 1, o + 1
    ready[r], outHandles[o], out[o] = h, h, spec
    local told = g.n + 1
    g.n, g[told] = told, id
    bytes, taken = bytes + #spec, taken + 1
  end
  c.bytes, p.taken = bytes, taken
end

-- Takes stretches as long as they are worth it. Routes that have gates are looked at job by job.
local function takeStretches(c, p, route, starts)
  if not HAS_PLAIN_ROADS or c.hasRung or usesOf(c, route) or not lanedOf(c, route) then return end
  while p.taken < p.wanted and p.refused < REFUSED_MAX do
    local s = lookStretch(c, p, route)
    readStretch(c, s)
    takeLanes(c, s)
    if s.looked == 0 then return end
    p.refused = p.refused + s.looked - #s.taken
    writeStretch(c, s)
    leaseStretch(c, p, s, starts)
    if s.looked < STRETCH_MIN then return end
  end
end
`;
