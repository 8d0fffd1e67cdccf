/**
 * The usual claim by lanes, as a set: a stretch of what is shown of one route, jobs that were never claimed before
 * and have to pass at most one gate, that of their key, which has a cap and nothing else. A stretch is a prefix of the
 * open lanes: it goes on as long as no next job of a lane that was taken from comes before the next one. Whom its
 * own cap refuses is parked. At the first thing that is not usual the stretch ends, all of it is written, and the claim
 * goes on lane by lane (claim-lanes.ts).
 *
 *  s   a stretch: what was found of its jobs, by their places in the order; and what becomes of their lanes, as the lists
 *      that are written at once. mids: of those that their lane shows with others behind them, the step; texts: the records
 *      of the lanes of all others
 */

export const laneStretchesLua = String.raw`
-- A claim that got fewer from a stretch goes on lane by lane: few lanes, or much that is not usual.
local STRETCH_MIN = 8
-- So many lanes that are refused are passed over in a call.
local REFUSED_MAX = 2000

-- From here on, jobs stand at this score.
local function meetScore(s, text)
  s.at, s.atText = tonumber(text), text
  s.ending = US .. s.route .. US .. (s.byTurn and text or "") .. US .. US .. US
end

-- The scores of all that a stretch has looked at.
local function readScores(c, s)
  local both, scores = call("ZRANGE", c.k.open .. s.route, "0", num(#s.found - 1), "WITHSCORES"), {}
  for i = 1, #s.found do scores[i] = both[i * 2] end
  s.scores = scores
end

-- What is shown of a route, the texts of these jobs, and the records of the lanes that show nothing behind them; ends
-- before an entry that is none.
local function lookStretch(c, p, route)
  local key = c.k.open .. route
  local found = call("ZRANGE", key, "0", num(p.wanted - p.taken - 1))
  local handles, lanes, mids, ends, endLanes = {}, {}, {}, {}, {}
  for i = 1, #found do
    local entry = found[i]
    local stop = find(entry, US, 1, true)
    if not stop then break end
    local mid = find(entry, RS, stop, true)
    handles[i] = sub(entry, 1, stop - 1)
    if mid then lanes[i], mids[i] = sub(entry, stop + 1, mid - 1), sub(entry, mid + 1)
    else
      local lane, n = sub(entry, stop + 1), #ends + 1
      lanes[i], mids[i], ends[n], endLanes[n] = lane, false, i, lane
    end
  end
  local laned, texts = lanedOf(c, route), {}
  for n, text in ipairs(fetch("HMGET", c.k.lane, endLanes)) do texts[ends[n]] = text end
  local s = {
    route = route, laned = laned, byTurn = laned.byTurn, n = #handles, found = found, handles = handles, lanes = lanes,
    mids = mids, texts = texts, specs = fetch("HMGET", c.k.spec, handles), states = fetch("HMGET", c.k.state, handles),
    ids = {}, kinds = {}, keys = {}, held = {}, looked = 0, taken = {}, scores = false, at = false, atText = false,
    lastAt = false, gone = {}, ranges = {}, records = {}, emptied = {}, come = {}, idle = {}, parked = {}, uses = {},
    ranks = {}, rankTexts = {}, behindHandle = US .. route, ending = "", top = laned.byTurn and topOf(c, laned.queue),
    step = false, nextOf = false, turns = NONE, items = {}, middle = "", midEnding = RS, boundAt = ANY, boundHandle = "",
    mends = {}, blocked = false,
  }
  if s.n > 0 then
    local both = call("ZMSCORE", key, found[1], found[#found])
    s.lastAt = tonumber(both[2])
    if s.byTurn and both[1] ~= both[2] then readScores(c, s) end
    meetScore(s, both[1])
    s.middle = s.ending
  end
  return s
end

-- What is held of the gates of these keys. Of one about which more is known than that, nothing.
local function readHeld(c, s, wanted)
  if #wanted == 0 then return end
  local ones, held, keyed = fetch("HMGET", c.k.one, wanted), s.held, c.keyed or NONE
  -- Beside the entry that keeps the hash a large one.
  local others = call("HLEN", c.k.use) > 1 and fetch("HMGET", c.k.use, wanted) or NONE
  for i = 1, #wanted do
    local key = wanted[i]
    local g, by = keyed[key], ones[i] and 1 or 0
    if others[i] then by = tonumber(others[i]) end
    held[key] = not (g and g.isShut) and by
  end
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
  readHeld(c, s, wanted)
end

-- The turn of lanes behind a job of this step that is taken now, and of those behind that as far as they are asked for.
local function moveTurn(s, step)
  s.step, s.nextOf = step, s.top
  s.turns = { s.top + (tonumber(step) or 0) }
  s.turnTexts = { num(s.turns[1]) }
  s.middle, s.midEnding = US .. s.route .. US .. s.turnTexts[1] .. US .. US .. US, RS .. step
end

-- The turn of the nth job that a lane shows, as a score; that of the one before it is known.
local function turnAt(s, n)
  s.turns[n] = s.turns[n - 1] + (tonumber(s.step) or 0)
  s.turnTexts[n] = num(s.turns[n])
  return s.turnTexts[n]
end

-- The rank of a place, as a score. Many jobs have the same.
local function rankAt(s, place)
  s.ranks[place], s.rankTexts[place] = rankIn(place), scoreIn(place)
  return s.rankTexts[place]
end

-- Where a record goes on behind a job, which is the last that its lane shows; nothing where the lane is not open there.
local function behindIn(s, text, h)
  local at = byte(text) == US_BYTE and 3 or 4
  if find(text, h, at, true) == at then
    at = at + #h + 1 + PLACE_LENGTH
    if find(text, s.ending, at, true) == at then return at + #s.ending end
    return nil
  end
  local found = showsMore(text) and find(text, h .. RS, 1, true)
  return found and find(text, s.behindHandle, 1, true) and found + #h + 1
end

-- A lane shows a job of another route. Answers false where that goes by another order.
local function showOther(c, s, lane, entry)
  local next = inLine(lane, entry)
  local laned = lanedOf(c, next.route)
  if not laned or laned.byTurn ~= s.byTurn then return false end
  local turn = s.byTurn and s.turnTexts[1] or ""
  add2(s.records, lane, concat({ "", "", next.handle, next.place, next.route, turn, "", "", "" }, US))
  push2(s.come, next.route, s.byTurn and turn or scoreIn(next.place), openEntry(lane, next.handle))
  return true
end

-- Nobody stands behind the job that was taken.
local function emptyLane(s, lane)
  if s.byTurn then
    add2(s.records, lane, US .. US .. US .. US .. US .. s.turnTexts[1] .. US .. US .. US)
    add2(s.idle, s.turnTexts[1], lane)
  else s.emptied[#s.emptied + 1] = lane end
end

-- A lane whose first job is refused by its own cap waits at that gate. Answers false where it is not open.
local function parkLane(s, lane, h, text, key)
  local at = behindIn(s, text, h)
  if not at then return false end
  local place = sub(text, at - #s.ending - PLACE_LENGTH, at - #s.ending - 1)
  local turn, standing = s.byTurn and s.atText or "", s.byTurn and placeText(s.at) or place
  add2(s.records, lane, concat({ "", "", h, place, s.route, turn, key, "", sub(text, at) }, US))
  add2(s.parked, "0", concat({ key, s.route, standing .. h, lane }, US))
  return true
end

-- The first of these entries leave the line.
local function leaveInLine(s, entries, last)
  if last > 2 then return add2(s.ranges, entries[1], entries[last]) end
  for i = 1, last do s.gone[#s.gone + 1] = entries[i] end
end

-- How many a lane shows next whose record this is, behind the last that it shows: one where it was refused before, else
-- four times as many.
local function reachOf(text)
  local first = byte(text)
  return first == US_BYTE and 1 or min(4 * (first - ZERO_BYTE), SHOWN_MAX)
end

-- A lane that was taken from shows this job first.
local function setBound(s, place, h)
  local position = s.byTurn and s.turns[1] or s.ranks[place]
  if position < s.boundAt or position == s.boundAt and h < s.boundHandle then s.boundAt, s.boundHandle = position, h end
end

-- The record of a lane that shows so many; first: handle and place of the first, list: what it has behind that.
local function writeShown(s, lane, shown, first, list)
  local head = shown == 1 and "1" .. US .. US or SHOWN[shown] .. US .. (s.byTurn and s.step or "") .. US
  add2(s.records, lane, head .. first .. s.middle .. list)
end

-- A lane shows up to so many of the jobs that its record has from there on.
local function showKnown(s, lane, text, at, most)
  local come, byTurn, shown, first, rest, isLast = s.come[s.route], s.byTurn, 0, nil, nil, false
  local z, texts = #come, byTurn and s.turnTexts or s.rankTexts
  repeat
    local placeEnd, stop = at + PLACE_LENGTH, find(text, RS, at, true)
    local place, h = sub(text, at, placeEnd - 1), sub(text, placeEnd, stop - 1)
    shown, at = shown + 1, stop + 1
    local mark = byte(text, at)
    isLast = shown == most or mark == ALONE_BYTE or mark == MORE_BYTE
    come[z + 1] = byTurn and (texts[shown] or turnAt(s, shown)) or texts[place] or rankAt(s, place)
    come[z + 2] = isLast and h .. US .. lane or h .. US .. lane .. s.midEnding
    z = z + 2
    if shown == 1 then
      first, rest = h .. US .. place, at
      setBound(s, place, h)
    end
  until isLast
  writeShown(s, lane, shown, first, sub(text, rest))
end

-- The first jobs in the line of a lane come into its record, which shows up to so many of them. own: the job that is taken,
-- where it stands in the line itself. Answers whether the line is as usual.
local function showLine(c, s, lane, own, most)
  local size, from, ending, at = max(most, KNOWN_MIN), own and 2 or 1, s.behindHandle, #lane + 2
  local entries, come, placeEnd = inLineOf(c, lane, size + from), s.come[s.route], at + PLACE_LENGTH
  if own and not (entries[1] and find(entries[1], own .. ending, placeEnd, true) == placeEnd) then return false end
  local byTurn, texts, items, laneEnding = s.byTurn, s.byTurn and s.turnTexts or s.rankTexts, s.items, US .. lane
  local midEnding, n, z, first, h, place = laneEnding .. s.midEnding, 0, #come, nil, nil, nil
  for i = from, min(#entries, from + size - 1) do
    local entry = entries[i]
    local stop = find(entry, ending, placeEnd, true)
    if not stop then break end
    n = n + 1
    items[n] = sub(entry, at, stop - 1)
    if n <= most then
      h = sub(entry, placeEnd, stop - 1)
      if not byTurn or n == 1 then place = sub(entry, at, placeEnd - 1) end
      if n == 1 then first = h .. US .. place end
      come[z + 1] = byTurn and (texts[n] or turnAt(s, n)) or texts[place] or rankAt(s, place)
      come[z + 2] = h .. midEnding
      z = z + 2
      if n == 1 then setBound(s, place, h) end
    end
  end
  local last = from - 1 + n
  if n == 0 and entries[from] and not showOther(c, s, lane, entries[from]) then return false end
  leaveInLine(s, entries, last)
  if n > 0 then
    come[z] = h .. laneEnding
    local mark = last == #entries and last < size + from and ALONE or MORE
    local list = n > 1 and concat(items, RS, 2, n) .. RS .. mark or mark
    writeShown(s, lane, min(most, n), first, list)
  elseif not entries[from] then emptyLane(s, lane) end
  return true
end

-- The last job that a lane shows is taken, and it shows the next ones. Answers whether that is as usual.
local function takeLast(c, s, h, lane, text)
  local at = behindIn(s, text, h)
  if not at then return false end
  local mark = byte(text, at)
  if mark == ALONE_BYTE then emptyLane(s, lane)
  elseif mark and mark ~= MORE_BYTE then showKnown(s, lane, text, at, reachOf(text))
  else return showLine(c, s, lane, not mark and h, reachOf(text)) end
  return true
end

-- A lane shows jobs as if its turn would come again before others have gone ahead of it, and they have; or by a wrong
-- step. So do others behind it: they have to show one each.
local function mendFrom(s, from)
  s.mends[#s.mends + 1] = s.lanes[from]
  for i = from + 1, s.n do
    if s.mids[i] and (not s.scores or tonumber(s.scores[i]) < s.top) then s.mends[#s.mends + 1] = s.lanes[i] end
  end
end

-- Whether a job would overtake what lanes that were taken from show now.
local function isBehindBound(c, s, i)
  if s.boundAt > s.lastAt then return false end
  if not s.scores then readScores(c, s) end
  meetScore(s, s.scores[i])
  return s.boundAt < s.at or s.boundAt == s.at and s.boundHandle < s.handles[i]
end

-- Takes and parks, as long as nobody is overtaken.
local function takeLanes(c, s)
  local handles, lanes, texts, kinds, keys, held, byTurn = s.handles, s.lanes, s.texts, s.kinds, s.keys, s.held, s.byTurn
  local taken, uses, mids, leased = s.taken, s.uses, s.mids, c.leased
  newList(s.come, s.route)
  for i = 1, s.n do
    local h, lane, key, kind, mid = handles[i], lanes[i], keys[i], kinds[i], mids[i]
    if s.scores and s.scores[i] ~= s.atText then meetScore(s, s.scores[i]) end
    -- No lane shows a job twice, but a hand may have.
    if leased[h] or s.boundAt <= s.lastAt and isBehindBound(c, s, i) then break end
    local before = key and held[key]
    if key and not before then break end
    local isBlocked = s.blocked and s.blocked[lane]
    if isBlocked or key and before + kind.weight > kind.cap then
      if not isBlocked and not kind.isOwnCap then break end
      local isShown = isBlocked or mid or showsMore(texts[i] or "")
      if not isShown and not parkLane(s, lane, h, texts[i] or "", key) then break end
      if isShown then
        -- It is met again once it is the only one that its lane shows.
        if not isBlocked then s.mends[#s.mends + 1] = lane end
        s.blocked = s.blocked or {}
        s.blocked[lane], s.blocked[i] = true, true
      end
    else
      if byTurn then
        if mid and (s.top > s.at or mid ~= kind.step) then
          mendFrom(s, i)
          break
        end
        if s.at > s.top then s.top = s.at end
        if not mid and (s.nextOf ~= s.top or kind.step ~= s.step) then moveTurn(s, kind.step) end
      end
      if not mid and not takeLast(c, s, h, lane, texts[i] or "") then break end
      taken[#taken + 1], leased[h] = i, true
      if key then
        uses[#uses + 1], held[key] = key, before + kind.weight
      end
    end
    s.looked = i
  end
end

-- Writes where the lanes of a stretch stand now.
local function writeStretch(c, s)
  local k, queue = c.k, s.laned.queue
  many("ZREM", k.line, s.gone)
  for i = 1, #s.ranges, 2 do call("ZREMRANGEBYLEX", k.line, "[" .. s.ranges[i], "[" .. s.ranges[i + 1]) end
  if s.blocked then
    local gone = {}
    for i = 1, s.looked do
      if not s.blocked[i] then gone[#gone + 1] = s.found[i] end
    end
    many("ZREM", k.open .. s.route, gone)
  elseif s.looked > 0 then call("ZREMRANGEBYRANK", k.open .. s.route, "0", num(s.looked - 1)) end
  for route, list in pairs(s.come) do
    many("ZADD", k.open .. route, list)
    if route ~= s.route then push(c, "shown", route) end
  end
  many("ZADD", k.parked, s.parked)
  many("HSET", k.lane, s.records)
  many("HDEL", k.lane, s.emptied)
  many("ZADD", k.idle .. queue, s.idle)
  if #s.uses > 0 then writeHeld(c, s.uses, s.held) end
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
    if s.looked == 0 and #s.mends == 0 then return end
    p.refused = p.refused + s.looked - #s.taken
    writeStretch(c, s)
    leaseStretch(c, p, s, starts)
    if s.looked < STRETCH_MIN and #s.mends == 0 or #s.mends > 0 and not loadLanes(c, s.mends) then return end
  end
end
`;
