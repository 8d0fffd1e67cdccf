-- limits/admit
module(function()
local ANY, heldOf, opensAt, permitsLeft, push = M.ANY, M.heldOf, M.opensAt, M.permitsLeft, M.push
local tatAfter, usesOf, writeGate = M.tatAfter, M.usesOf, M.writeGate

-- Answers whether an offered route has a gate. Before anything is taken, because what is held follows from the indexes.
local function startPermits(c)
  local i, args, permits = c.i, c.args, nil
  while i <= c.last do
    local last = i + 2 + tonumber(args[i + 2])
    for r = i + 3, last do
      for _, use in ipairs(usesOf(c, args[r]) or {}) do
        permits = permits or {}
        permits[use.gate] = permits[use.gate]
          or {
            left = permitsLeft(use.gate, use.gate.cap and heldOf(c, use.gate) or 0, c.now),
            taken = 0,
            isShut = false,
          }
      end
    end
    i = last + 1
  end
  c.permits, c.opensAt = permits, nil
  return permits ~= nil
end

-- Whether one of these routes has a gate.
local function hasGates(c, routes)
  for _, route in ipairs(routes) do
    if usesOf(c, route) then return true end
  end
  return false
end

-- How many jobs of a route may pass from here on.
local function roomOf(c, route)
  local room = ANY
  for _, use in ipairs(usesOf(c, route) or {}) do
    local permits = c.permits[use.gate]
    if permits.isShut then return 0 end
    room = min(room, floor(permits.left / use.weight))
  end
  return room
end

-- Jobs of a route pass; below zero, some have not after all.
local function takePermits(c, route, jobs)
  for _, use in ipairs(usesOf(c, route) or {}) do
    local permits, by = c.permits[use.gate], jobs * use.weight
    permits.left, permits.taken = permits.left - by, permits.taken + by
  end
end

-- The next job of a source, after n that were taken from the offer, may not pass.
local function refuse(c, source, n)
  local uses, isShut, opens = usesOf(c, source.route), false, nil
  for _, use in ipairs(uses) do
    isShut = isShut or c.permits[use.gate].isShut
  end
  for _, use in ipairs(isShut and {} or uses) do
    local gate, permits = use.gate, c.permits[use.gate]
    if permits.left < use.weight then
      permits.isShut = true
      local at = opensAt(gate, tatAfter(gate, permits.taken, c.now), use.weight, c.now)
      if at and (not opens or at < opens) then opens = at end
    end
  end
  push(c, "refused", { source = source, behind = n, opensAt = opens })
end

-- For the head of a source in a merge (ready-jobs.lua.ts).
local function admit(c, source, n)
  c.ranks[n + 1] = source.scores[source.head]
  if roomOf(c, source.route) == 0 then
    refuse(c, source, n)
    return false
  end
  takePermits(c, source.route, 1)
  return true
end

-- Those that were not leased, because the inputs were too large or they were not ready there, give their permits back.
-- Answers whether any were not ready: others could have passed in their place.
local function giveBack(c, members, of, sources, taken, from)
  local handles = c.handles
  if taken == #members and #handles - from == taken then return false end
  local o, isStray = from, false
  for i, h in ipairs(members) do
    if i <= taken and handles[o + 1] == h then
      o = o + 1
    else
      takePermits(c, (of and of[i] or sources[1]).route, -1)
      isStray = isStray or i <= taken
    end
  end
  return isStray
end

-- Whether a route has a job after this one.
local function hasBehind(source, rank, h)
  local last = call("ZRANGE", source.key, "-1", "-1", "WITHSCORES")
  local score = tonumber(last[2] or "")
  return score and (score > rank or score == rank and last[1] > h)
end

-- The end of an offer: what it took of its members is in c.handles after from. Answers whether the claim stopped
-- before all its jobs were taken or refused.
local function closePermits(c, members, of, sources, taken, from)
  local isLeft = giveBack(c, members, of, sources, taken, from)
  local isStopped = c.isFull
  for _, refused in ipairs(c.refused) do
    local isMet, at = refused.behind < taken or not isStopped, refused.opensAt
    if isMet and at and (not c.opensAt or at < c.opensAt) then c.opensAt = at end
    if isStopped then isLeft = isLeft or not isMet or hasBehind(refused.source, c.ranks[taken], members[taken]) end
  end
  return isLeft
end

local function takeTokens(c)
  for gate, permits in pairs(c.permits) do
    if gate.stepUs and permits.taken > 0 then
      gate.tatUs = tatAfter(gate, permits.taken, c.now)
      writeGate(c.k, gate)
    end
  end
end

M.startPermits, M.hasGates, M.roomOf, M.takePermits = startPermits, hasGates, roomOf, takePermits
M.refuse, M.admit, M.closePermits, M.takeTokens = refuse, admit, closePermits, takeTokens
end)
