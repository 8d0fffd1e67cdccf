-- groups/claim-lane-set
module(function()
local add2, ANY, fetch, firstOf, hintOpened, inLine = M.add2, M.ANY, M.fetch, M.firstOf, M.hintOpened, M.inLine
local kindOf, lanedOf, lineAfter, lineEntry, many = M.kindOf, M.lanedOf, M.lineAfter, M.lineEntry, M.many
local newList, NONE, noteOpen, num, openEntry = M.newList, M.NONE, M.noteOpen, M.num, M.openEntry
local PLACE_LENGTH, placeText, rankIn, readLike = M.PLACE_LENGTH, M.placeText, M.rankIn, M.readLike
local scoreIn, takeTurn, topOf, waitEntry, writeHeld = M.scoreIn, M.takeTurn, M.topOf, M.waitEntry, M.writeHeld

-- A claim that got fewer from a set goes on lane by lane: few lanes, or much that is not usual.
local SET_MIN = 8
-- A call refuses at most this many lanes.
local REFUSED_MAX = 2000

-- The open lanes of a route, and the texts of their first jobs; ends before an entry that is none.
local function lookLanes(c, p, route)
  local found, handles, lanes = call("ZRANGE", c.k.open .. route, "0", num(p.wanted - p.taken - 1)), {}, {}
  for i = 1, #found do
    local entry = found[i]
    local stop = find(entry, US, 1, true)
    if not stop then break end
    handles[i], lanes[i] = sub(entry, 1, stop - 1), sub(entry, stop + 1)
  end
  local laned = lanedOf(c, route)
  return {
    route = route,
    laned = laned,
    byTurn = laned.byTurn,
    n = #handles,
    handles = handles,
    lanes = lanes,
    specs = fetch("HMGET", c.k.spec, handles),
    states = fetch("HMGET", c.k.state, handles),
    texts = fetch("HMGET", c.k.lane, lanes),
    ids = {},
    kinds = {},
    keys = {},
    held = {},
    areOnes = true,
    looked = 0,
    taken = {},
    uses = {},
    gone = {},
    records = {},
    emptied = {},
    come = {},
    idle = {},
    waits = {},
    ranks = {},
    scores = {},
    at = false,
    atText = "",
    ending = US .. route .. US .. US,
    top = laned.byTurn and topOf(c, laned.queue),
    step = false,
    next = false,
    nextText = "",
    boundAt = ANY,
    boundHandle = "",
  }
end

-- What is held of the gates of these keys, if anything is: of most nothing. false of one that is shut.
local function readHeld(c, s, wanted)
  if #wanted == 0 then return end
  local ones, held = fetch("SMISMEMBER", c.k.one, wanted), s.held
  for i = 1, #wanted do
    if ones[i] == 1 then held[wanted[i]] = 1 end
  end
  -- Beside the entry that keeps the hash a large one.
  if call("HLEN", c.k.use) > 1 then
    for i, by in ipairs(fetch("HMGET", c.k.use, wanted)) do
      if by then held[wanted[i]] = tonumber(by) or false end
    end
  end
  for key, g in pairs(c.keyed or NONE) do
    if g.isShut then held[key] = false end
  end
end

-- Reads the jobs, up to the first that is not usual or with which their inputs may reach the bound of the call.
local function readFirsts(c, s)
  local specs, states, lanes, ids, kinds, keys = s.specs, s.states, s.lanes, s.ids, s.kinds, s.keys
  local kind, bytes, wanted, puts = c.alike[s.route], c.bytes, {}, c.life.gates and c.life.gates.all or NONE
  if kind and kind.cap ~= 1 then s.areOnes = false end
  for i = 1, s.n do
    local spec, lane, id, key = specs[i], lanes[i], nil, nil
    if spec and not states[i] then
      bytes = bytes + #spec
      if kind then
        id, key = readLike(kind, spec, lane)
      end
      if not id then
        kind, id, key = kindOf(c, spec, s.route, lane)
        if kind and kind.cap ~= 1 then s.areOnes = false end
      end
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

-- The place of the first job of an open lane, as its record says; nothing if it says anything else. From here on, lanes
-- have the turn that it has.
local function placeIn(s, text, h)
  local endingAt = #h + PLACE_LENGTH + 2
  if find(text, h, 1, true) ~= 1 then return nil end
  if find(text, s.ending, endingAt, true) ~= endingAt or #text ~= endingAt + #s.ending - 1 then
    local turn = s.byTurn and match(text, "^\31[^\31]*\31(%d+)\31$", endingAt)
    if not turn then return nil end
    s.atText, s.at, s.ending = turn, tonumber(turn), US .. s.route .. US .. turn .. US
    if find(text, s.ending, endingAt, true) ~= endingAt then return nil end
  end
  return sub(text, endingAt - PLACE_LENGTH, endingAt - 1)
end

-- The rank of a place, and as a score. Many jobs have the same.
local function rankAt(s, place)
  local rank = s.ranks[place]
  if not rank then
    rank = rankIn(place)
    s.ranks[place], s.scores[place] = rank, scoreIn(place)
  end
  return rank
end

-- The turn of a lane after a job of this step that is taken now.
local function setTurn(s, step)
  if s.at > s.top or step ~= s.step then
    s.top, s.next = takeTurn(s.at, s.top, tonumber(step) or 0)
    s.step, s.nextText = step, num(s.next)
  end
end

-- Whether lanes of a route go by the same order as those of the set.
local function isOfOrder(c, s, route)
  local laned = route == s.route and s.laned or lanedOf(c, route)
  return laned and laned.byTurn == s.byTurn
end

-- The next job of a lane is its first.
local function setNext(s, lane, place, h, route)
  local position, records, open =
    s.byTurn and s.next or rankAt(s, place), s.records, s.come[route] or newList(s.come, route)
  local n, z = #records, #open
  records[n + 1], records[n + 2] = lane, h .. US .. place .. US .. route .. US .. s.nextText .. US
  open[z + 1], open[z + 2] = s.byTurn and s.nextText or s.scores[place], openEntry(lane, h)
  local isFirst = position < s.boundAt or position == s.boundAt and h < s.boundHandle
  if route == s.route and isFirst then
    s.boundAt, s.boundHandle = position, h
  end
end

-- Nobody comes after the job that was taken.
local function emptyOut(s, lane)
  if s.byTurn then
    add2(s.records, lane, US .. US .. US .. s.nextText .. US)
    add2(s.idle, s.nextText, lane)
  else
    s.emptied[#s.emptied + 1] = lane
  end
end

-- A lane whose first job is refused by its own cap waits at that gate.
local function waitAtOwn(s, lane, h, place, key)
  local standing = s.byTurn and placeText(s.at) or place
  add2(s.records, lane, h .. US .. place .. US .. s.route .. US .. s.atText .. US .. key)
  add2(s.waits, "0", waitEntry(key, s.route, standing, h, lane))
end

-- Whether the gate of a key lets another job pass after one of this kind, and a lane waits for that.
local function hasWaitingAt(c, s, key, kind, held)
  if not c.hasWaiting or held + kind.weight + (kind.isOwnCap and kind.weight or 1) > kind.cap then return false end
  local first = key .. US .. s.route .. US
  local found = call("ZRANGE", c.k.waits, "[" .. first, "+", "BYLEX", "LIMIT", "0", "1")[1]
  return found and find(found, first, 1, true) == 1
end

-- Takes the first job of a lane. Answers whether that is usual.
local function takeFirstOf(c, s, i, place)
  local h, lane, kind = s.handles[i], s.lanes[i], s.kinds[i]
  local entry = lineEntry(lane, place, h, s.route)
  local after, nextPlace, nextHandle, route = lineAfter(c, lane, entry, "1")[1], nil, nil, nil
  if after then
    nextPlace, nextHandle, route = inLine(lane, after)
    if not isOfOrder(c, s, route) then return false end
  end
  if s.byTurn then setTurn(s, kind.step) end
  if after then
    setNext(s, lane, nextPlace, nextHandle, route)
  else
    emptyOut(s, lane)
  end
  s.gone[#s.gone + 1], s.taken[#s.taken + 1] = entry, i
  return true
end

-- Takes lanes or lets them wait, as long as nobody is overtaken.
local function takeLanes(c, s)
  for i = 1, s.n do
    local h, lane, key, kind = s.handles[i], s.lanes[i], s.keys[i], s.kinds[i]
    local place = placeIn(s, s.texts[i] or "", h)
    if not place then break end
    local at = s.byTurn and s.at or rankAt(s, place)
    if s.boundAt < at or s.boundAt == at and s.boundHandle < h then break end
    local held = key and (s.held[key] or s.held[key] == nil and 0)
    if key and not held then break end
    if key and held + kind.weight > kind.cap then
      if not kind.isOwnCap then break end
      waitAtOwn(s, lane, h, place, key)
    else
      if key and hasWaitingAt(c, s, key, kind, held) or not takeFirstOf(c, s, i, place) then break end
      if key then
        s.uses[#s.uses + 1], s.held[key] = key, held + kind.weight
      end
    end
    s.looked = i
  end
end

-- Writes where the lanes of a set stand now.
local function writeLaneSet(c, s)
  local k, queue = c.k, s.laned.queue
  many("ZREM", k.line, s.gone)
  call("ZREMRANGEBYRANK", k.open .. s.route, "0", num(s.looked - 1))
  for route, list in pairs(s.come) do
    many("ZADD", k.open .. route, list)
    if route ~= s.route then noteOpen(c, route) end
  end
  many("ZADD", k.waits, s.waits)
  many("HSET", k.lane, s.records)
  many("HDEL", k.lane, s.emptied)
  many("ZADD", k.idle .. queue, s.idle)
  if #s.uses > 0 then writeHeld(c, s.uses, s.held, s.areOnes) end
  if s.byTurn and #s.taken > 0 then
    c.turned = c.turned or {}
    c.tops[queue], c.turned[queue] = s.top, true
  end
  c.hasWaiting = c.hasWaiting or #s.waits > 0
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  hintOpened(c)
end

-- Leases what was taken of a set.
local function leaseLaneSet(c, p, s, starts)
  local handles, specs, ids, kinds, keys, outHandles, out = s.handles, s.specs, s.ids, s.kinds, s.keys, c.handles, c.out
  local lease = c.k.lease
  local states, leases, ready = c.states or {}, c.zadd[lease] or {}, p.ready[s.route] or {}
  c.states, c.zadd[lease], p.ready[s.route] = states, leases, ready
  local endsAt, n, z, r, o, bytes = p.endsAt, #states, #leases, #ready, #out, c.bytes
  local taken, kind, wasStarted, before, behind, g = p.taken, nil, nil, nil, nil, nil
  for at = 1, #s.taken do
    local i = s.taken[at]
    local h, id, spec, isStarted = handles[i], ids[i], specs[i], taken < starts
    if kinds[i] ~= kind or isStarted ~= wasStarted then
      kind, wasStarted = kinds[i], isStarted
      local first = firstOf(c, s.route, p.owner, endsAt, isStarted, kind.own)
      before, behind, g = first.before, first.behind .. kind.prefix, first.bundle
    end
    local key = keys[i]
    states[n + 1] = h
    if key then
      states[n + 2] = before .. id .. behind .. key
    else
      states[n + 2] = before .. id .. behind
    end
    leases[z + 1], leases[z + 2] = endsAt, h
    n, z, r, o = n + 2, z + 2, r + 1, o + 1
    ready[r], outHandles[o], out[o] = h, h, spec
    local emitted = g.n + 1
    g.n, g[emitted] = emitted, id
    bytes, taken = bytes + #spec, taken + 1
  end
  c.bytes, p.taken = bytes, taken
end

-- Takes sets as long as they are worth it.
local function takeLaneSets(c, p, route, starts)
  while p.taken < p.wanted and p.refused < REFUSED_MAX do
    local s = lookLanes(c, p, route)
    readFirsts(c, s)
    takeLanes(c, s)
    if s.looked == 0 then return end
    p.refused = p.refused + s.looked - #s.taken
    writeLaneSet(c, s)
    leaseLaneSet(c, p, s, starts)
    if s.looked < SET_MIN then return end
  end
end

M.REFUSED_MAX, M.takeLaneSets = REFUSED_MAX, takeLaneSets
end)
