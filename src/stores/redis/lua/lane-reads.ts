/**
 * What the usual claim by lanes (lane-stretches.ts) reads: a prefix of what is shown of one route, with the texts of
 * these jobs, the records of lanes that have to be looked at, and what is held of the gates of their keys. It ends
 * before the first thing that is not usual.
 *
 *  s   a stretch: what was found of its jobs, by their places in the order; and what becomes of their lanes, as the
 *      lists that are written at once. mids: of those whose lanes need not be looked at, the step; texts: the records
 *      of the lanes of all others; looks: by the last job that a lane shows lane and record, where another job of that
 *      lane was taken that had to be looked at
 */

export const laneReadsLua = String.raw`
-- From here on, jobs stand at this score.
local function meetScore(s, text)
  s.at, s.atText = tonumber(text), text
  s.ending = US .. s.route .. US .. (s.byTurn and text or "") .. US .. US .. US
end

-- The scores of all that a stretch has looked at.
local function readScores(c, s)
  local both, scores = call("ZRANGE", c.k.open .. s.route, s.from, s.from + #s.found - 1, "WITHSCORES"), {}
  for i = 1, #s.found do scores[i] = both[i * 2] end
  s.scores = scores
end

-- What is shown of a route, the texts of these jobs, and the records of the lanes that show nothing behind them; ends
-- before an entry that is none.
local function lookStretch(c, p, route)
  local key = c.k.open .. route
  local found = call("ZRANGE", key, p.left, p.left + p.wanted - p.taken - 1)
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
    step = false, nextOf = false, turns = NONE, stepText = US, midEnding = RS, boundAt = ANY, boundHandle = "", mends = {},
    blocked = false, looks = false, areOnes = true, from = p.left, left = 0, refused = {}, heads = {},
  }
  if s.n > 0 then
    local both = call("ZMSCORE", key, found[1], found[#found])
    s.lastAt = tonumber(both[2])
    if s.byTurn and both[1] ~= both[2] then readScores(c, s) end
    meetScore(s, both[1])
  end
  return s
end

-- What is held of the gates of these keys, where anything is: of most nothing. false of one about which more is known.
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
local function readStretch(c, s)
  local specs, states, lanes, ids, kinds, keys = s.specs, s.states, s.lanes, s.ids, s.kinds, s.keys
  local kind, bytes, wanted, puts = c.alike[s.route], c.bytes, {}, c.life.gates and c.life.gates.all or NONE
  if kind and kind.cap ~= 1 then s.areOnes = false end
  for i = 1, s.n do
    local spec, lane, id, key = specs[i], lanes[i], nil, nil
    if spec and not states[i] then
      bytes = bytes + #spec
      if kind then id, key = readLike(kind, spec, lane) end
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
`;
