/**
 * What the ends of a call arrive at, as a set (R4): the jobs that edges lead to are read by a few commands for all ends,
 * of each its state alone; counts are summed up in the call's own view, and written once (`flushTargets`): at the end of
 * the call, and before any job is read whole. A job that is freed gets its state from a template: jobs whose
 * states have the same behind their ids, and that say the same about where they go, differ in their ids alone.
 *
 * Whatever is unusual about a target (a lane, a deadline, an earlier attempt, a job that the call has in view) is left to
 * the general road (arrive.ts). Calls that take this road have c.targets: settle and change.
 */

export const targetsLua = String.raw`
-- A job that was blocked from its birth, up to its id.
local BORN_BLOCKED = BLOCKED .. US .. "0" .. US

-- Where the edges of members lead to; the same for members of one flow with the same edges. ids: those that were asked for.
local function waysOf(c, flow, edges)
  local all = c.ways or newList(c, "ways")
  local ofFlow = all[flow] or newList(all, flow)
  local ways = ofFlow[edges]
  if not ways then
    ways = { flow = flow, edges = edges == "" and NONE or split(edges, RS), ids = {} }
    ofFlow[edges] = ways
  end
  return ways
end

local function idAlong(ways, i)
  local id = ways.ids[i]
  if not id then
    id = idOfNode(ways.flow, ways.edges[i])
    ways.ids[i] = id
  end
  return id
end

-- What jobs share whose states have the same behind their ids: their waits, and the text around them. false for others.
local function alikeOf(c, rest)
  local alike = c.restsOf[rest]
  if alike == nil then
    local from, to = waitsInRest(rest)
    alike = from and readWaits(sub(rest, from, to - 1))
    if alike and alike.need then
      alike.rest, alike.before, alike.behind, alike.freed = rest, sub(rest, 1, from - 1), sub(rest, to), {}
    else alike = false end
    c.restsOf[rest] = alike
  end
  return alike
end

-- A target by its state; nothing for a text that has to be read whole.
local function targetFrom(c, h, id, text)
  local head = BORN_BLOCKED .. id
  local isFirst = find(text, head, 1, true) == 1
  if not isFirst then head = headIn(text, id) end
  local alike = head and alikeOf(c, sub(text, #head + 1))
  if not alike then return nil end
  return {
    h = h, id = id, head = head, alike = alike, need = alike.need, slack = alike.slack,
    isFirst = isFirst, isBlocked = sub(text, 1, 1) == BLOCKED,
  }
end

-- The jobs that these passings lead to come into view: each has ways, and from and to, behind and up to which edge. A job
-- that may be freed by them has its spec read too.
local function loadTargets(c, passings)
  local ids, coming, handles, wanted = {}, {}, {}, {}
  for _, passing in ipairs(passings) do
    for i = passing.from + 1, passing.to do
      local id = idAlong(passing.ways, i)
      if coming[id] then coming[id] = coming[id] + 1
      else
        coming[id] = 1
        if c.targets[id] == nil then ids[#ids + 1] = id end
      end
    end
  end
  handlesOf(c, ids)
  for _, id in ipairs(ids) do
    local h = c.ids[id]
    if h and c.jobs[h] == nil then handles[#handles + 1], wanted[#wanted + 1] = h, id end
  end
  local ripe, ripeHandles = {}, {}
  for i, text in ipairs(fetch("HMGET", c.k.state, handles)) do
    local h, id = handles[i], wanted[i]
    text = c.done[h] or text
    local target = text and targetFrom(c, h, id, text)
    c.targets[id] = target or false
    if target and target.isFirst and target.need > 0 and coming[id] >= target.need then
      ripe[#ripe + 1], ripeHandles[#ripeHandles + 1] = target, h
    end
  end
  for i, spec in ipairs(fetch("HMGET", c.k.spec, ripeHandles)) do ripe[i].spec = spec end
end

local function waitsOfTarget(target)
  local alike = target.alike
  local members = alike.members
  if target.ended then
    local counts = split(members, ",")
    for ended, by in pairs(target.ended) do counts[COUNT_AT[ended]] = counts[COUNT_AT[ended]] + by end
    members = concat(counts, ",")
  end
  return target.need .. "," .. target.slack .. "," .. alike.passed .. "," .. alike.owes .. members
end

local function stateOfTarget(target)
  local alike, placed = target.alike, target.placed
  if placed then return placed.head .. target.id .. placed.before .. waitsOfTarget(target) .. placed.behind end
  return target.head .. alike.before .. waitsOfTarget(target) .. alike.behind
end

-- What has been counted and who has been freed since the last time is put with what the call writes.
local function flushTargets(c)
  local states = c.states or newList(c, "states")
  local n = c.statesAt or #states
  for _, target in ipairs(c.arrived) do
    local text = stateOfTarget(target)
    states[n + 1], states[n + 2] = target.h, text
    c.done[target.h], n, target.hasArrived = text, n + 2, false
  end
  if c.statesAt then c.statesAt = n end
  for _, placed in ipairs(c.placed) do
    count(c, placed.route, BLOCKED, -placed.jobs)
    count(c, placed.route, placed.state, placed.jobs)
    placed.jobs = 0
  end
  c.arrived = {}
end

-- From here on the call takes this road. c.flush: before a job is read whole (job.ts).
local function takeTargets(c)
  if not HAS_PLAIN_ROADS then return end
  c.targets, c.arrived, c.restsOf, c.placed, c.done, c.flush = {}, {}, {}, {}, c.done or {}, flushTargets
end

local function leaveTargets(c)
  if c.flush then flushTargets(c) end
  c.targets, c.flush = nil, nil
end

-- What jobs that are alike become where they go as this text says: the parts of their states around id and waits, their
-- place and their event. false where each has to be placed for itself.
local function placedAlike(c, alike, freed)
  local asked, job = readFreed(freed), { state = BLOCKED, fence = "0", deadlineAt = "" }
  if asked.ttlMs ~= "" or not readRest(job, alike.rest, #US + 1) or not contentOf(c, job.route) then return false end
  advance(job, placeOf(c, job, asked))
  job.waits = HOLE
  local parts = split(restOf(job), HOLE)
  local placed = { before = US .. parts[1], behind = parts[2], head = job.state .. US .. "0" .. US, jobs = 0 }
  placed.route, placed.state, placed.dueAt, placed.rank = job.route, job.state, job.dueAt, job.rank
  placed.key, placed.score = whereIs(c.k, job)
  placed.bundle = bundleOf(c, eventOf(job, FREED), job.state)
  if job.state == READY then setReady(c, job.route) else setDue(c, placed.score) end
  c.placed[#c.placed + 1] = placed
  return placed
end

-- The same for one target; nothing where it is not to be placed as one of a set. Its spec must leave its due time and rank to
-- the state: where they are the same, the state says nothing of them.
local function placedFor(c, target)
  local spec = target.spec
  if not spec or c.shapes and #c.shapes > 0 then return nil end
  local id, madeAt, route, freed = readFreedSpec(spec)
  if id ~= target.id or freed == "" then return nil end
  local alike = target.alike
  local placed = alike.freed[freed]
  if placed == nil then
    placed = placedAlike(c, alike, freed)
    alike.freed[freed] = placed
  end
  if placed and placed.route == route and placed.dueAt ~= madeAt and placed.rank ~= madeAt then return placed end
end

local function freeTarget(c, target)
  local placed = placedFor(c, target)
  if not placed then
    local job = jobOf(c, target.h)
    if job then
      touch(c, job)
      free(c, job)
    end
    return
  end
  target.placed, target.isBlocked = placed, false
  placed.jobs = placed.jobs + 1
  push2(c.zadd, placed.key, placed.score, target.h)
  local g = placed.bundle
  local n = g.n + 1
  g.n, g[n], g.ids[n] = n, target.id, target.id
end

-- arrive (arrive.ts) for a target of which the state alone was read.
local function arriveAtTarget(c, target, edge, ended)
  local toFlow = isToFlow(edge)
  if not (target.isBlocked or toFlow) then return end
  local need, slack, alike = target.need, target.slack, target.alike
  if hasBit(sub(edge, 1, 1), ended) then target.need = need - 1 end
  if hasBit(sub(edge, 2, 2), ended) then target.slack = slack - 1 end
  if toFlow and alike.members ~= "" then
    local counts = target.ended or {}
    counts[ended], target.ended = (counts[ended] or 0) + 1, counts
  end
  if not target.hasArrived then
    target.hasArrived = true
    c.arrived[#c.arrived + 1] = target
  end
  if not target.isBlocked then return end
  local isMet = need > 0 and target.need <= 0
  if (slack >= 0 and target.slack < 0) or (isMet and alike.owes == "1") then owe(c, target.id) end
  if isMet and target.slack >= 0 then freeTarget(c, target) end
end

-- An end goes along the ways of a member, behind and up to these edges. The targets are in view.
local function goAlong(c, ways, from, to, ended)
  for i = from + 1, to do
    local id = ways.ids[i]
    local target = c.targets and c.targets[id]
    if target and c.jobs[target.h] == nil then arriveAtTarget(c, target, ways.edges[i], ended)
    else
      local job = jobById(c, id)
      if job then arrive(c, job, ways.edges[i], ended) end
    end
  end
end
`;
