-- runs/first-claims
module(function()
local bundleOf, contentOf, emit, eventOf, fillFirst = M.bundleOf, M.contentOf, M.emit, M.eventOf, M.fillFirst
local inputBytes, jobFrom, keep, lease, newJob, push2 = M.inputBytes, M.jobFrom, M.keep, M.lease, M.newJob, M.push2
local putBack, readMember, readRest, recall, restOf = M.putBack, M.readMember, M.readRest, M.recall, M.restOf
local split, stateOf, touch, widen = M.split, M.stateOf, M.touch, M.widen

-- This many are read before it is known how large they are.
local FIRST_READ = 16

-- The bytes of all inputs in the specs of out and of the one in this spec. c.bytes is never less, because a spec is
-- longer than its input: they are counted only where it reaches the bound. What was counted before is c.near.
local function bytesWith(c, spec, out)
  local bytes = c.near
  for i = c.nearTo + 1, #out do
    bytes = bytes + inputBytes(out[i])
  end
  c.near, c.nearTo = bytes, #out
  return bytes + inputBytes(spec)
end

-- Up to which member the next part is read, after the first N (done): a few first, then as the room for inputs allows.
local function partEnd(c, done, total)
  if done == 0 then return min(FIRST_READ, total) end
  local room = max(1, floor((c.bytesMax - c.bytes) * done / max(1, c.bytes)))
  return min(done + min(room, CHUNK), total)
end

-- What first claims of plain jobs of a route by one owner share: the parts of their state around id and times, up to
-- their uses, and their event.
local function templateOf(c, route, owner, isStarted, flags)
  local job = newJob()
  job.flags = flags
  if find(flags, HAS_GATES, 1, true) then job.laneGates = HOLE end
  job.id, job.route, job.state = HOLE, route, READY
  lease({ now = c.now, at = HOLE, fence = c.fence }, job, owner, HOLE, isStarted)
  local t = { parts = split(stateOf(job), HOLE) }
  t.event = eventOf(job, CLAIMED)
  return t
end

-- flags: what the jobs have beyond plain ones.
local function prepareFirst(c, route, owner, endsAt, isStarted, flags)
  local key = flags .. (isStarted and "s" or "w") .. owner .. US .. route
  local t = recall(c, key)
  if not t then
    t = templateOf(c, route, owner, isStarted, flags)
    keep(c, key, t)
  end
  local bundle = bundleOf(c, t.event, RUNNING)
  return { before = t.parts[1], behind = fillFirst(t.parts, c.at, endsAt), bundle = bundle }
end

-- The same, made once in a call.
local function firstOf(c, route, owner, endsAt, isStarted, flags)
  local firsts, name = isStarted and c.started or c.waiting, flags .. route
  local first = firsts[name]
  if not first then
    first = prepareFirst(c, route, owner, endsAt, isStarted, flags)
    firsts[name], c.first = first, first
  end
  return first
end

local function readBoth(c, members, from, to)
  return call("HMGET", c.k.spec, unpack(members, from, to)), call("HMGET", c.k.state, unpack(members, from, to))
end

-- Specs and states of members from one place to another. Where they cannot be had at all, no job is left outside of its
-- index.
local function readPart(c, members, from, to, source)
  if not source.popped then return readBoth(c, members, from, to) end
  local isRead, specs, states = pcall(readBoth, c, members, from, to)
  if isRead then return specs, states end
  putBack(source, 1)
  error(specs, 0)
end

local function handOut(c, h, spec)
  local o = #c.out + 1
  c.handles[o], c.out[o] = h, spec
end

-- Nothing for a job that is not ready on this route, or cannot be read.
local function leaseAny(c, h, spec, state, route, owner, endsAt, isStarted)
  widen(c)
  c.met, c.alikeOthers = { route = route, state = READY }, c.alikeOthers or {}
  local job = jobFrom(c, h, spec, state, c.alikeOthers)
  c.met = nil
  if not job or job.state ~= READY or job.route ~= route then return nil end
  touch(c, job)
  lease(c, job, owner, endsAt, isStarted)
  emit(c, job, CLAIMED)
  return job
end

-- What jobs of flows share that nobody has claimed before and that have the same after their ids: in their states, or
-- of those that nobody has touched, flags and waits. false for others.
local function leasedAlike(c, route, rest, flags, waits, isStarted)
  local job = newJob()
  job.state = READY
  if flags then
    job.route, job.flags, job.waits = route, flags, waits
  elseif not readRest(job, rest, #US + 1) or job.route ~= route or job.ttlAt ~= "" or not contentOf(c, route) then
    return false
  end
  lease(c, job, c.owner, c.endsAt, isStarted)
  local alike = { before = RUNNING .. US .. job.fence .. US, behind = US .. restOf(job) }
  alike.bundle, alike.stateText = bundleOf(c, eventOf(job, CLAIMED), RUNNING), alike.before .. alike.behind
  return alike
end

-- A job that nobody has claimed, up to its id.
local NEVER_CLAIMED = READY .. US .. "0" .. US
local AFTER_NEVER_CLAIMED = #NEVER_CLAIMED + 1

-- The same for one job; nothing where it is not to be claimed as one of a set. rest: of its state, after its id, which
-- names the route; a job that nobody has touched has no state, and one call claims of several routes.
local function leasedFor(c, route, rest, flags, dueAt, waits, isStarted)
  if rest then
    flags = nil
  else
    rest = dueAt == "" and route .. US .. flags .. US .. waits
  end
  if not rest then return nil end
  local known = c.leasedAlike[isStarted]
  local alike = known[rest]
  if alike == nil then
    alike = leasedAlike(c, route, rest, flags, waits, isStarted)
    known[rest] = alike
  end
  return alike
end

-- What is compared with the next job, because a second one of its flow has come: members that were made alike and freed
-- together have the same between id and input, and the same state.
local function keepLast(c, spec, flags, id, rest, uses, input, alike, isStarted, route)
  local idAt = #flags + #US + 1
  local like =
    { route = route, isStarted = isStarted, flags = flags .. US, id = id, rest = rest, stateText = alike.stateText }
  like.shared, like.before, like.behind = sub(spec, idAt + #id, input - 1), alike.before, alike.behind .. uses
  like.bundle, c.lastMember = alike.bundle, like
end

-- Whether a job is like the last one, which gets its id.
local function isLikeLast(like, spec, state, route, isStarted)
  local flags, shared, rest = like.flags, like.shared, like.rest
  local idAt = #flags + 1
  local idEnd = spec and find(spec, US, idAt, true)
  if not idEnd or like.route ~= route or like.isStarted ~= isStarted or find(spec, flags, 1, true) ~= 1 then
    return false
  end
  if find(spec, shared, idEnd, true) ~= idEnd or find(spec, US, idEnd + #shared, true) then return false end
  local restAt = AFTER_NEVER_CLAIMED + idEnd - idAt
  if
    #state ~= restAt + #rest - 1
    or find(state, rest, restAt, true) ~= restAt
    or find(state, NEVER_CLAIMED, 1, true) ~= 1
  then
    return false
  end
  local id = sub(spec, idAt, idEnd - 1)
  like.id = id
  return find(state, id, AFTER_NEVER_CLAIMED, true) == AFTER_NEVER_CLAIMED
end

-- Hands out one more that is like the last, at a place: those in a row are one entry of c.others.
local function noteLike(c, like, place)
  if like.nextPlace ~= place then
    like.run = { stateText = like.stateText, times = 0 }
    push2(c, "others", place, like.run)
  end
  like.run.times, like.nextPlace = like.run.times + 1, place + 1
end

-- Leases a job of a flow as one of those that are alike; answers whether it is one.
local function leaseMember(c, h, spec, state, route, isStarted)
  local flags, id, dueAt, flow, waits, uses, input
    if HAS_LEASE_FLOW_MEMBERS then flags, id, dueAt, flow, waits, uses, input = readMember(spec, route) end
  local head, rest = state and id and NEVER_CLAIMED .. id, nil
  if head then rest = find(state, head, 1, true) == 1 and sub(state, #head + 1) end
  if not id or state and not rest then return false end
  local alike = leasedFor(c, route, rest, flags, dueAt, waits, isStarted)
  if not alike then return false end
  push2(c, "others", #c.out, alike)
  push2(c, "states", h, alike.before .. id .. alike.behind .. uses)
  push2(c.zadd, c.k.lease, c.endsAt, h)
  handOut(c, h, spec)
  local g = alike.bundle
  g.n = g.n + 1
  g[g.n] = id
  if rest and c.lastFlow == flow then keepLast(c, spec, flags, id, rest, uses, input, alike, isStarted, route) end
  c.lastFlow = flow
  return true
end

M.bytesWith, M.partEnd, M.firstOf, M.readPart, M.handOut = bytesWith, partEnd, firstOf, readPart, handOut
M.leaseAny, M.isLikeLast, M.noteLike, M.leaseMember = leaseAny, isLikeLast, noteLike, leaseMember
end)
