/**
 * The usual claim by lanes, as a set: a stretch of what is shown of one route, jobs that were never claimed before
 * and have to pass at most one gate, that of their key, which has a cap and nothing else. A stretch is a prefix of the
 * open lanes: it goes on as long as no next job of a lane that was taken from comes before the next one. Whom its
 * own cap refuses is parked. At the first thing that is not usual the stretch ends, all of it is written, and the claim
 * goes on lane by lane (claim-lanes.ts).
 *
 * What a stretch reads is in lane-reads.ts, what becomes of the lanes in lane-next.ts.
 *
 * A lane that shows several jobs of which the next is refused by its own cap is passed over: its jobs stay where they
 * are. It is hidden and parked only where claims meet it again and again, because hiding and showing so many jobs costs
 * more than passing over them.
 *
 *  p   of the offer: left, how many jobs ahead of all others were passed over; blocked and blocks, the lanes of these
 *      and how many they are; isDone, whether nobody else can be taken
 */

export const laneStretchesLua = String.raw`
-- A claim that got fewer from a stretch goes on lane by lane: few lanes, or much that is not usual.
local STRETCH_MIN = 8
-- So many lanes that are refused are passed over in a call.
local REFUSED_MAX = 2000
-- So many jobs at most are passed over and left where they are, and so often those of one lane.
local PASSED_MAX, PASSES_MAX = 1500, 3
-- So many lanes are remembered.
local LANES_MAX = 20000

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
local function takeLanes(c, p, s)
  local handles, lanes, texts, kinds, keys, held, byTurn = s.handles, s.lanes, s.texts, s.kinds, s.keys, s.held, s.byTurn
  local taken, uses, mids, leased = s.taken, s.uses, s.mids, c.leased
  newList(s.come, s.route)
  for i = 1, s.n do
    local h, lane, key, kind, mid = handles[i], lanes[i], keys[i], kinds[i], mids[i]
    if s.scores and s.scores[i] ~= s.atText then meetScore(s, s.scores[i]) end
    -- No lane shows a job twice, but a hand may have.
    if leased[h] or s.boundAt <= s.lastAt and isBehindBound(c, s, i) then break end
    local before = key and held[key]
    if before == false then break end
    before = before or 0
    local isBlocked = p.blocks > 0 and p.blocked[lane]
    if isBlocked or key and before + kind.weight > kind.cap then
      if not isBlocked and not kind.isOwnCap then break end
      local isShown = isBlocked or mid or showsMore(texts[i] or "")
      if not isShown and not parkLane(s, lane, h, texts[i] or "", key, kind.step) then break end
      if isShown then
        if not isBlocked then s.refused[#s.refused + 1], p.blocked[lane], p.blocks = lane, true, p.blocks + 1 end
        s.blocked, s.left = s.blocked or {}, s.left + 1
        s.blocked[i] = true
      end
    else
      local look, text, at, last = mid and s.looks and s.looks[h], texts[i] or "", nil, nil
      if look then text = look.text end
      if look or not mid then
        at, last = meetRecord(s, text, h, kind.step)
        if not at and not last then break end
      end
      if byTurn then
        if (mid or last) and (s.top > s.at or mid and mid ~= kind.step) then
          mendFrom(s, i)
          break
        end
        if s.at > s.top then s.top = s.at end
        if at and (s.nextOf ~= s.top or kind.step ~= s.step) then moveTurn(s, kind.step) end
      end
      if last then
        s.looks = s.looks or {}
        s.looks[last] = { lane = lane, text = text }
      elseif at then
        if not takeLast(c, s, h, lane, text, at) then break end
        if look then s.looks[h] = nil end
      end
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
  elseif s.looked > 0 then call("ZREMRANGEBYRANK", k.open .. s.route, s.from, s.from + s.looked - 1) end
  if s.looks then writeLooks(c, s) end
  for route, list in pairs(s.come) do
    many("ZADD", k.open .. route, list)
    if route ~= s.route then push(c, "shown", route) end
  end
  many("ZADD", k.parked, s.parked)
  many("HSET", k.lane, s.records)
  many("HDEL", k.lane, s.emptied)
  many("ZADD", k.idle .. queue, s.idle)
  if #s.uses > 0 then writeHeld(c, s.uses, s.held, s.areOnes) end
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
  local taken, kind, wasStarted, before, behind, g = p.taken, nil, nil, nil, nil, nil
  for at = 1, #s.taken do
    local i = s.taken[at]
    local h, id, spec, isStarted = handles[i], ids[i], specs[i], taken < starts
    if kinds[i] ~= kind or isStarted ~= wasStarted then
      kind, wasStarted = kinds[i], isStarted
      local first = firstOf(c, s.route, p.owner, endsAt, isStarted, kind.own)
      before, behind, g = first.before, first.behind .. kind.prefix, first.bundle
    end
    states[n + 1] = h
    local key = keys[i]
    if key then states[n + 2] = before .. id .. behind .. key else states[n + 2] = before .. id .. behind end
    leases[z + 1], leases[z + 2] = endsAt, h
    n, z, r, o = n + 2, z + 2, r + 1, o + 1
    ready[r], outHandles[o], out[o] = h, h, spec
    local told = g.n + 1
    g.n, g[told] = told, id
    bytes, taken = bytes + #spec, taken + 1
  end
  c.bytes, p.taken = bytes, taken
end

-- By lane how many claims of the route have passed it over, since one met nobody who was refused.
local function passedOf(c, s)
  local all = c.life.passed or newList(c.life, "passed")
  local passed = all[s.route]
  if not passed or passed.lanes > LANES_MAX then
    passed = { lanes = 0, times = {} }
    all[s.route] = passed
  end
  passed.lanes = passed.lanes + #s.refused
  return passed.times
end

-- Lanes that showed jobs wrongly show one each. So do those that were refused again and again: they are met once more, and
-- parked. The jobs of all others are left where they are, because what keeps them out is most likely over when the next claim
-- comes; how often that was done is only remembered by the library. Answers whether any showed more than one; nothing where
-- none had to.
local function mendLanes(c, p, s)
  local mends, isMany = s.mends, p.left + s.left > PASSED_MAX
  local passed = #s.refused > 0 and passedOf(c, s) or NONE
  for _, lane in ipairs(s.refused) do
    local times = (passed[lane] or 0) + 1
    passed[lane] = times
    if times > PASSES_MAX or isMany then mends[#mends + 1] = lane end
  end
  if #mends == 0 then
    p.left = p.left + s.left
    return nil
  end
  for _, lane in ipairs(mends) do
    if p.blocked[lane] then p.blocked[lane], p.blocks = nil, p.blocks - 1 end
    if passed[lane] then passed[lane] = nil end
  end
  p.left = 0
  return loadLanes(c, mends)
end

-- Whether nobody is left who could be taken: all that is shown was passed over, or all lanes that there are.
local function isAllPassed(c, p, s)
  if p.blocks == 0 then return false end
  return #s.found == 0 or s.left > #s.taken and p.blocks >= call("HLEN", c.k.lane)
end

-- Takes stretches as long as they are worth it. Routes that have gates are looked at job by job.
local function takeStretches(c, p, route, starts)
  if not HAS_PLAIN_ROADS or c.hasRung or usesOf(c, route) or not lanedOf(c, route) then return end
  while p.taken < p.wanted and p.refused < REFUSED_MAX do
    local s = lookStretch(c, p, route)
    readStretch(c, s)
    takeLanes(c, p, s)
    if s.looked == 0 and #s.mends == 0 then
      p.isDone = isAllPassed(c, p, s)
      return
    end
    p.refused = p.refused + s.looked - #s.taken
    writeStretch(c, s)
    leaseStretch(c, p, s, starts)
    local hasMended = mendLanes(c, p, s)
    p.isDone = hasMended == nil and isAllPassed(c, p, s)
    if p.blocks == 0 and c.life.passed then c.life.passed[route] = nil end
    if p.isDone or hasMended == false or hasMended == nil and s.looked < STRETCH_MIN then return end
  end
end
`;
