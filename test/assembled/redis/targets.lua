-- flows/targets
module(function()
local advance, arrive, bundleOf, contentOf, count = M.advance, M.arrive, M.bundleOf, M.contentOf, M.count
local COUNT_AT, deferWork, eventOf, fetch, free = M.COUNT_AT, M.deferWork, M.eventOf, M.fetch, M.free
local freedInUses, hasBit, hasUsualFlags, headIn = M.freedInUses, M.hasBit, M.hasUsualFlags, M.headIn
local idOfNode, isToFlow, jobById, jobOf, newList = M.idOfNode, M.isToFlow, M.jobById, M.jobOf, M.newList
local NONE, placeOf, push2, readFreed, readRest = M.NONE, M.placeOf, M.push2, M.readFreed, M.readRest
local readWaits, restOf, setDue, setReady, split = M.readWaits, M.restOf, M.setDue, M.setReady, M.split
local touch, waitsInRest, whereIs = M.touch, M.waitsInRest, M.whereIs

-- A job that was blocked from its birth, up to its id.
local BORN_BLOCKED = BLOCKED .. US .. "0" .. US
local AT_ONCE, PER_STEP = 64, 500

-- Fewer edges than this are not worth the tables of those that are freed together (free-many.lua.ts).
local MANY_EDGES = 16

-- Up to N edges of a member (most), from one on. isMore: there are others after these.
local function cutEdges(text, from, most)
  local edges, at = { isMore = false }, 1
  if text == "" then return edges end
  for _ = 1, from do
    local stop = find(text, RS, at, true)
    if not stop then return edges end
    at = stop + 1
  end
  for n = 1, most do
    local stop = find(text, RS, at, true)
    edges[n] = sub(text, at, stop and stop - 1)
    if not stop then return edges end
    at = stop + 1
  end
  edges.isMore = true
  return edges
end

-- The end of a member on its way: which edges it goes along, up to which of all, and from 1 on what these lead to.
-- ends: how many members it is of.
local function passingOf(c, flow, text, from, most)
  local all = c.edgesOf or newList(c, "edgesOf")
  local edges = from == 0 and most == AT_ONCE and all[text]
  if not edges then
    edges = cutEdges(text, from, most)
    if from == 0 and most == AT_ONCE then all[text] = edges end
  end
  local total = #edges
  -- What may be taken back is done to whole jobs.
  local isMany = total >= MANY_EDGES and c.targets ~= nil and not c.undo
  return { flow = flow, edges = edges, to = from + total, ends = 1, isMany = isMany }
end

-- What jobs share whose states have the same between their ids and their uses: their waits, and the text around them.
-- false for others.
local function alikeOf(c, rest, isBlocked)
  local rests = c.restsOf[isBlocked]
  local alike = rests[rest]
  if alike == nil then
    local from, to = waitsInRest(rest)
    alike = from and readWaits(sub(rest, from, to - 1))
    if alike and alike.need then
      alike.rest, alike.before, alike.behind = rest, sub(rest, 1, from - 1), sub(rest, to)
      alike.isBlocked, alike.freed, alike.placed = isBlocked, {}, {}
    else
      alike = false
    end
    rests[rest] = alike
  end
  return alike
end

-- Reads the state of a target; one that has to be read whole stays without what is alike.
local function readTarget(c, target, text)
  local head = BORN_BLOCKED .. target.id
  if find(text, head, 1, true) ~= 1 then
    head = headIn(text, target.id)
    if not head then return end
    target.head = head
  end
  local rest = match(text, "^.*\31", #head + 1)
  local alike = rest and alikeOf(c, rest, find(text, BLOCKED, 1, true) == 1)
  if not alike then return end
  target.alike, target.need, target.slack, target.uses = alike, alike.need, alike.slack, sub(text, #head + #rest + 1)
end

-- The targets of these passings, each once, and those of them that the call meets for the first time; but for those of
-- many edges, which are looked at when the end comes. arrivals: how many ends will come, and after this how many came.
local function targetsOf(c, passings)
  local met, targets, n = {}, c.targets, 0
  for _, passing in ipairs(passings) do
    local flow = passing.flow
    if passing.isMany then c.isOneByOne = true end
    for i, edge in ipairs(passing.isMany and NONE or passing.edges) do
      local id = idOfNode(flow, edge)
      local target = targets[id]
      if not target then
        target = { id = id, h = false, alike = false, need = 0, slack = 0, arrivals = 0, uses = "", placed = false }
        n = n + 1
        targets[id], met[n] = target, target
      end
      if not target.alike then target.arrivals = target.arrivals + passing.ends end
      passing[i] = target
    end
  end
  return met
end

-- The handles of targets, by one command for those that the call does not have in view.
local function findTargets(c, targets)
  local wanted, ids = {}, {}
  for _, target in ipairs(targets) do
    local h = c.ids[target.id]
    if h == nil then
      wanted[#wanted + 1], ids[#ids + 1] = target, target.id
    else
      target.h = h
    end
  end
  for i, h in ipairs(fetch("HMGET", c.k.ids, ids)) do
    wanted[i].h = h
    if not h then c.ids[ids[i]] = false end
  end
end

-- What these passings lead to comes into view, by a few commands for all of them. toCome: how many ends a target is to
-- count at most, where that is more than one.
local function loadTargets(c, passings)
  local met, wanted, handles = targetsOf(c, passings), {}, {}
  findTargets(c, met)
  for _, target in ipairs(met) do
    local h = target.h
    if h and c.jobs[h] == nil then
      wanted[#wanted + 1], handles[#handles + 1] = target, h
    end
  end
  for i, text in ipairs(fetch("HMGET", c.k.state, handles)) do
    local target, h = wanted[i], handles[i]
    text = c.done[h] or text
    if text then readTarget(c, target, text) end
    if target.arrivals > 1 then target.toCome = target.arrivals end
    target.arrivals = 0
  end
end

-- How the members of a flow have ended, after these ends.
local function membersText(alike, ended)
  local counts = split(alike.members, ",")
  for state, by in pairs(ended) do
    counts[COUNT_AT[state]] = counts[COUNT_AT[state]] + by
  end
  return concat(counts, ",")
end

-- Most of those that are alike have the same waits as the one before them.
local function waitsOfTarget(target)
  local alike, ended = target.alike, target.ended
  local only, by
  if ended then
    only, by = next(ended)
    if next(ended, only) then only = nil end
  end
  local last = alike.last
  local isSame = last
    and last.need == target.need
    and last.slack == target.slack
    and last.only == only
    and last.by == by
  if isSame and (only or not ended) then return last.text end
  local members = ended and membersText(alike, ended) or alike.members
  local text = target.need .. "," .. target.slack .. "," .. alike.passed .. "," .. alike.defers .. members
  alike.last = { need = target.need, slack = target.slack, only = only, by = by, text = text }
  return text
end

local function stateOfTarget(target)
  local alike, placed, waits = target.alike, target.placed, waitsOfTarget(target)
  if placed then return placed.head .. target.id .. placed.before .. waits .. placed.behind end
  return (target.head or BORN_BLOCKED .. target.id) .. alike.before .. waits .. alike.behind .. target.uses
end

-- From now on the target is written.
local function noteArrived(c, target)
  if target.arrivals > 0 then return end
  target.arrivals = 1
  c.arrived[#c.arrived + 1] = target
end

local function countMembers(target, ended, ends)
  local counts = target.ended or {}
  counts[ended], target.ended = (counts[ended] or 0) + ends, counts
end

-- N ends of this kind arrive along the edges of a passing, none of which frees or loses its target.
local function arriveTogether(c, passing, ended, ends)
  for i, target in ipairs(passing) do
    local edge, alike = passing.edges[i], target.alike
    local toFlow = isToFlow(edge)
    if alike.isBlocked or toFlow then
      if hasBit(sub(edge, 1, 1), ended) then target.need = target.need - ends end
      if hasBit(sub(edge, 2, 2), ended) then target.slack = target.slack - ends end
      if toFlow and alike.members ~= "" then countMembers(target, ended, ends) end
      noteArrived(c, target)
    end
  end
end

-- Ends that were counted arrive; from now on each arrives by itself, because others may come than those that were
-- known.
local function endCounting(c)
  for _, passing in ipairs(c.counted) do
    for ended, ends in pairs(passing.counted) do
      arriveTogether(c, passing, ended, ends)
    end
    passing.counted = nil
  end
  c.counted, c.isOneByOne = {}, true
end

-- What has been counted and who has been freed since the last time is put with what the call writes.
local function flushTargets(c)
  endCounting(c)
  local states = c.states or newList(c, "states")
  local n = c.statesAt or #states
  for _, target in ipairs(c.arrived) do
    local text = stateOfTarget(target)
    states[n + 1], states[n + 2] = target.h, text
    c.done[target.h], n, target.arrivals = text, n + 2, 0
  end
  if c.statesAt then c.statesAt = n end
  for _, placed in ipairs(c.placed) do
    count(c, placed.route, BLOCKED, -placed.jobs)
    count(c, placed.route, placed.state, placed.jobs)
    placed.jobs = 0
  end
  c.arrived = {}
end

-- From here on the call takes this path. c.flush: before a job is read whole (job.lua.ts).
local function takeTargets(c)
  if not HAS_ARRIVE_FLOW_MEMBERS then return end
  c.targets, c.arrived, c.placed, c.done, c.flush = {}, {}, {}, c.done or {}, flushTargets
  c.restsOf, c.counted, c.isOneByOne = { [true] = {}, [false] = {} }, {}, false
end

local function leaveTargets(c)
  if c.flush then flushTargets(c) end
  c.targets, c.flush = nil, nil
end

-- What jobs that are alike become where they go as this text says: the parts of their states around id and waits, their
-- place and their event. false where each has to be placed for itself.
local function placedAlike(c, alike, freed)
  local asked, job = readFreed(freed), { state = BLOCKED, fence = "0", deadlineAt = "" }
  if asked.ttlMs ~= "" or not readRest(job, alike.rest, #US + 1) then return false end
  if not hasUsualFlags(job.flags) or not contentOf(c, job.route) then return false end
  advance(job, placeOf(c, job, asked))
  job.waits = HOLE
  local parts = split(restOf(job), HOLE)
  local placed = { before = US .. parts[1], behind = parts[2], head = job.state .. US .. "0" .. US, jobs = 0 }
  placed.route, placed.state, placed.dueAt, placed.rank = job.route, job.state, job.dueAt, job.rank
  placed.key, placed.score = whereIs(c.k, job)
  placed.bundle = bundleOf(c, eventOf(job, FREED), job.state)
  if job.state == READY then
    setReady(c, job.route)
  else
    setDue(c, placed.score)
  end
  c.placed[#c.placed + 1] = placed
  return placed
end

-- The same by their uses. The spec of such a job must have another due time and rank: where they are the same, the
-- state says nothing of them.
local function placedByUses(c, alike, uses)
  local dueAt, rank, freed = freedInUses(uses)
  if not freed then return false end
  local placed = alike.freed[freed]
  if placed == nil then
    placed = placedAlike(c, alike, freed)
    alike.freed[freed] = placed
  end
  return placed and placed.dueAt ~= dueAt and placed.rank ~= rank and placed
end

-- The same for one target; nothing where it is not to be placed as one of a set.
local function placedFor(c, target)
  if target.head or c.shapes and #c.shapes > 0 then return nil end
  local alike, uses = target.alike, target.uses
  local placed = alike.placed[uses]
  if placed == nil then
    placed = placedByUses(c, alike, uses)
    alike.placed[uses] = placed
  end
  return placed
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
  target.placed = placed
  placed.jobs = placed.jobs + 1
  push2(c.zadd, placed.key, placed.score, target.h)
  local g = placed.bundle
  local n = g.n + 1
  g.n, g[n], g.ids[n] = n, target.id, target.id
end

-- arrive (arrive.lua.ts) for a target of which the state alone was read.
local function arriveAtTarget(c, target, edge, ended)
  local need, slack, alike, toFlow = target.need, target.slack, target.alike, isToFlow(edge)
  local isBlocked = alike.isBlocked and not target.placed
  if not (isBlocked or toFlow) then return end
  if hasBit(sub(edge, 1, 1), ended) then target.need = need - 1 end
  if hasBit(sub(edge, 2, 2), ended) then target.slack = slack - 1 end
  if toFlow and alike.members ~= "" then countMembers(target, ended, 1) end
  noteArrived(c, target)
  if not isBlocked then return end
  local isMet = need > 0 and target.need <= 0
  if (slack >= 0 and target.slack < 0) or (isMet and alike.defers == "1") then deferWork(c, target.id) end
  if isMet and target.slack >= 0 then freeTarget(c, target) end
end

-- Whether all ends that are to come leave the target of this edge blocked, and its slack on the same side of 0, where
-- this kind of end counts.
local function staysBlocked(target, edge, ended)
  local toCome = target.toCome
  if not toCome or not (target.need <= 0 or target.need > toCome) then return false end
  return target.slack < 0 or target.slack >= toCome or not hasBit(sub(edge, 2, 2), ended)
end

-- Whether the ends of this kind may be counted first and arrive together.
local function mayBeCounted(c, passing, ended)
  if passing.ends == 1 then return false end
  for i, target in ipairs(passing) do
    local alike = target.alike
    if not alike or target.placed or c.jobs[target.h] ~= nil then return false end
    if alike.isBlocked and not staysBlocked(target, passing.edges[i], ended) then return false end
  end
  return true
end

-- Counts an end that may arrive together with others; answers whether it is one.
local function countToCome(c, passing, ended)
  local counted = passing.counted
  local ends = counted and counted[ended]
  if not ends then
    if not mayBeCounted(c, passing, ended) then return false end
    if not counted then
      counted = newList(passing, "counted")
      c.counted[#c.counted + 1] = passing
    end
    ends = 0
  end
  counted[ended] = ends + 1
  return true
end

local function arriveEach(c, passing, ended)
  local edges = passing.edges
  for i, target in ipairs(passing) do
    if HAS_ARRIVE_FLOW_MEMBERS and target.alike and c.jobs[target.h] == nil then
      arriveAtTarget(c, target, edges[i], ended)
    else
      local job = jobById(c, target.id)
      if job then arrive(c, job, edges[i], ended) end
    end
  end
end

M.BORN_BLOCKED, M.AT_ONCE, M.PER_STEP, M.passingOf = BORN_BLOCKED, AT_ONCE, PER_STEP, passingOf
M.readTarget, M.loadTargets, M.waitsOfTarget = readTarget, loadTargets, waitsOfTarget
M.endCounting, M.takeTargets, M.leaveTargets, M.placedFor = endCounting, takeTargets, leaveTargets, placedFor
M.countToCome, M.arriveEach = countToCome, arriveEach
end)
