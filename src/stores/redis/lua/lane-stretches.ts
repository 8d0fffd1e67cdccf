/**
 * The usual claim by lanes, as a set: a stretch of open lanes of one route whose first jobs were never claimed before
 * and are let pass by at most one gate, that of their key, which has a cap and nothing else. What is taken is a prefix
 * of the open lanes: as long as no next job of a lane that was taken from comes before the next lane. At the first
 * thing that is not usual the stretch ends, all of it is written, and the claim goes on lane by lane (claim-lanes.ts).
 *
 *  s   a stretch: by place handles, lanes, entries and scores of the open lanes, their texts, and what was read of them
 */

export const laneStretchesLua = String.raw`
-- A claim that got fewer from a stretch goes on lane by lane: few lanes, or much that is not usual.
local STRETCH_MIN = 8
-- A lane that is open and speaks for nobody (argument-text.ts).
local USUAL = "^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31\31$"

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
  local s = { n = n, route = route, found = found, handles = handles, lanes = lanes, taken = 0 }
  s.specs, s.states = fetch("HMGET", c.k.spec, handles), fetch("HMGET", c.k.state, handles)
  s.records = fetch("HMGET", c.k.lane, lanes)
  return s
end

-- Reads the jobs, up to the first that is not usual.
local function readStretch(c, s)
  local ids, flags, steps, keys, weights, caps, wanted = {}, {}, {}, {}, {}, {}, {}
  for i = 1, s.n do
    local spec, id, own, step, gates = s.specs[i], nil, nil, nil, nil
    if spec and not s.states[i] then id, own, step, gates = readAlike(spec, s.route, s.lanes[i], c.alike) end
    if id and gates ~= "" then
      local weight, cap, key = match(gates, "^(%d+):(%d*):([^\30]*)$")
      local bound = key and (tonumber(cap) or capOf(c, key) or nil)
      -- Also where the job has a cap of its own, nothing else may bound the key.
      if not bound or not capOf(c, key) then id = nil
      else
        keys[i], weights[i], caps[i] = key, tonumber(weight), bound
        wanted[#wanted + 1] = key
      end
    end
    if not id then
      s.n = i - 1
      break
    end
    ids[i], flags[i], steps[i] = id, own, step
  end
  s.ids, s.flags, s.steps, s.keys, s.weights, s.caps, s.held = ids, flags, steps, keys, weights, caps, {}
  for i, text in ipairs(fetch("HMGET", c.k.use, wanted)) do s.held[wanted[i]] = text or "" end
end

-- What is held of the gate of a key; nothing where more is to be looked at.
local function heldBefore(c, s, key)
  local held, g = s.held[key], c.keyed and c.keyed[key]
  if g and g.isShut then return nil end
  if held == "" then return 0 end
  return tonumber(type(held) == "number" and held or match(held, "^(%d+)\31" .. "0$"))
end

-- What stands behind a job in its line: entry, handle, place, route; nothing at its end.
local function nextInLine(c, lane, entry)
  local found = call("ZRANGE", c.k.line, "(" .. entry, "+", "BYLEX", "LIMIT", "0", "1")[1]
  local from = #lane + 2
  if not found or find(found, US, 1, true) ~= from - 1 or sub(found, 1, from - 2) ~= lane then return nil end
  local stop = find(found, US, from + 17, true)
  return sub(found, from + 17, stop - 1), sub(found, from, from + 16), sub(found, stop + 1)
end

-- Where the lanes go that were taken from.
local function newMoves() return { gone = {}, records = {}, emptied = {}, come = {}, idle = {}, uses = {} } end

-- Takes as many as come before the next jobs of the lanes that were taken from.
local function takeLanes(c, s, moves)
  local laned, route, found = lanedOf(c, s.route), s.route, s.found
  local byTurn, top = laned.byTurn, laned.byTurn and topOf(c, laned.queue)
  local boundAt, boundHandle, turnAt, turnText = ANY, "", nil, nil
  for i = 1, s.n do
    local at, h, lane, key = tonumber(found[i * 2]), s.handles[i], s.lanes[i], s.keys[i]
    if boundAt < at or boundAt == at and boundHandle < h then break end
    local handle, place, own, turn = match(s.records[i] or "", USUAL)
    if handle ~= h or own ~= route or byTurn and turn == "" then break end
    local held = key and heldBefore(c, s, key)
    if key and not (held and held + s.weights[i] <= s.caps[i]) then break end
    local entry = lineEntry(lane, place, h, route)
    local nextHandle, nextPlace, nextRoute = nextInLine(c, lane, entry)
    local nextLaned = laned
    if nextHandle and nextRoute ~= route then nextLaned = lanedOf(c, nextRoute) end
    if not nextLaned or nextLaned.byTurn ~= byTurn then break end
    if byTurn then
      top = max(top, tonumber(turn))
      local after = top + (tonumber(s.steps[i]) or 0)
      if after ~= turnAt then turnAt, turnText = after, num(after) end
      turn = turnText
    end
    moves.gone[i] = entry
    if key then
      s.held[key] = held + s.weights[i]
      moves.uses[key] = s.held[key]
    end
    if nextHandle then
      local position = byTurn and turnAt or rankIn(nextPlace)
      add2(moves.records, lane, nextHandle .. US .. nextPlace .. US .. nextRoute .. US .. turn .. US .. US)
      push2(moves.come, nextRoute, byTurn and turn or scoreIn(nextPlace), openEntry(lane, nextHandle))
      local isFirst = position < boundAt or position == boundAt and nextHandle < boundHandle
      if nextRoute == route and isFirst then boundAt, boundHandle = position, nextHandle end
    elseif turn ~= "" then
      add2(moves.records, lane, US .. US .. US .. turn .. US .. US)
      add2(moves.idle, turn, lane)
    else moves.emptied[#moves.emptied + 1] = lane end
    s.taken = i
  end
  if byTurn and s.taken > 0 then
    c.turned = c.turned or {}
    c.tops[laned.queue], c.turned[laned.queue] = top, true
  end
  return laned.queue
end

local function writeMoves(c, s, moves, queue)
  local k, uses = c.k, {}
  many("ZREM", k.line, moves.gone)
  call("ZREMRANGEBYRANK", k.open .. s.route, "0", num(s.taken - 1))
  for route, list in pairs(moves.come) do
    many("ZADD", k.open .. route, list)
    if route ~= s.route then push(c, "shown", route) end
  end
  many("HSET", k.lane, moves.records)
  many("HDEL", k.lane, moves.emptied)
  many("ZADD", k.idle .. queue, moves.idle)
  for key, held in pairs(moves.uses) do
    local g, text = c.keyed and c.keyed[key], num(held) .. US .. "0"
    if g then g.held, g.text = held, text end
    add2(uses, key, text)
  end
  many("HSET", k.use, uses)
  -- The call's view of lanes was written before, and is read anew.
  c.lanes = nil
  tellShown(c)
end

-- Leases what was taken of a stretch.
local function leaseStretch(c, p, s, starts, out)
  local states, leases, ready = c.states or {}, c.zadd[c.k.lease] or {}, p.ready[s.route] or {}
  c.states, c.zadd[c.k.lease], p.ready[s.route] = states, leases, ready
  local n, z, o, r = #states, #leases, #out, #ready
  for i = 1, s.taken do
    local h, id, own, isStarted = s.handles[i], s.ids[i], s.flags[i], p.taken < starts
    local firsts, name = isStarted and c.started or c.waiting, own .. s.route
    local first = firsts[name]
    if not first then
      first = prepareFirst(c, s.route, p.owner, p.endsAt, isStarted, own)
      firsts[name], c.first = first, first
    end
    states[n + 1], states[n + 2] = h, first.before .. id .. first.behind
    n = n + 2
    leases[z + 1], leases[z + 2] = p.endsAt, h
    z = z + 2
    r = r + 1
    ready[r] = h
    local g = first.bundle
    g.n = g.n + 1
    g[g.n] = id
    out[o + 1], out[o + 2] = h, s.specs[i]
    o = o + 2
    p.taken = p.taken + 1
  end
end

-- Whether the inputs of a stretch stay below the bound of the call: near it, they are looked at one by one.
local function isBelowBound(c, s)
  if not c.bytesMax then return true end
  local bytes = c.bytes
  for i = 1, s.n do bytes = bytes + (s.specs[i] and #s.specs[i] or 0) end
  if c.isExact or bytes >= c.bytesMax then return false end
  c.bytes = bytes
  return true
end

-- Takes stretches as long as they are worth it. Routes that have gates are looked at job by job.
local function takeStretches(c, p, route, starts, out)
  if not HAS_PLAIN_ROADS or c.hasRung or usesOf(c, route) or not lanedOf(c, route) then return end
  while p.taken < p.wanted do
    local s = lookStretch(c, p, route)
    readStretch(c, s)
    if s.n == 0 or not isBelowBound(c, s) then return end
    local moves = newMoves()
    local queue = takeLanes(c, s, moves)
    if s.taken == 0 then return end
    writeMoves(c, s, moves, queue)
    leaseStretch(c, p, s, starts, out)
    if s.taken < STRETCH_MIN then return end
  end
end
`;
