/**
 * settle: what a running attempt writes at its end, under its fence. Applied at most once and only with the current
 * fence; a repeat with the same fence answers already. Plain endings (no effects, kept) are written as a set: one
 * template for all that look alike, and their unique keys are freed together at the end; where the call has effects,
 * which may take such a key, jobs with keys go through the job's tables like everything else. Members of flows end as a
 * set too, and then go along their edges (targets.lua.ts).
 *
 *  args     shapes of the effects, number of settles, their handles, then series: how many, next (argument-text.ts;
 *           a finish without its result), fence, whether attempt logs and results come, and what else: effects (1),
 *           a journal (2), both (3); and per settle: id [US attempt log], [result], [last number that was seen, "" for
 *           any, number of entries, those], [a unit as in submit]
 *  answer   place and answer of each settle that was not applied
 */
import { takes } from "../library/path-branches.ts";
import { lua, luaModule } from "../library/lua.ts";

export const settleLua = luaModule({
  name: "runs/settle",
  takes: [
    "add2 after appendEnded appendEntries apply AT_ONCE bundleOf count cutTimes edgesIn edgesInUses eventOf fetch",
    "fillEnding finish follow freeGates giveBackUses goAlong handleById isBad isKeptUntil isOfFlow",
    "jobOf keep KEPT_FOREVER_AT keysIn leaveTargets loadJobs loadTargets many newList nextArg nextFlag",
    "nextNumber nextUnit NONE NOTE_MAX NOTED NOTED_UNREPORTED noteOf num passingOf push2 readFields",
    "readRest readShapes readWaits recall restOf returnPermits seqOf slice split submitUnit takeTargets",
    "touch whole widen withPassed writeRecords",
  ],
  source: lua`
-- Which no state has after its id.
local NO_ENDING = { rest = HOLE, isPlain = false }

local function newSeries(next, text, fence)
  local running = RUNNING .. US .. fence .. US
  local series = { next = next, text = text, fence = fence, running = running, endings = {}, handles = {}, n = 0 }
  series.idAt, series.last = #running + 1, NO_ENDING
  return series
end

-- How a series of settles goes on; what is made for it serves all series of the call with the same next and fence.
local function seriesOf(seriesByKey, text, fence)
  local key = fence .. US .. text
  local series = seriesByKey[key]
  if not series then
    series = newSeries(readFields(text), text, fence)
    local next = series.next
    series.isPlain = ${takes("settle: set")}
    seriesByKey[key] = series
  end
  return series
end

-- The same for the members of flows in a series whose ends go along N edges (passes): they are kept as long as their
-- flows, and their waits say how far their ends have gone.
local function seriesOfMembers(seriesByKey, series, passes)
  local ofMembers = series.ofMembers or newList(series, "ofMembers")
  local own = ofMembers[passes]
  if not own then
    local next = series.next
    own = newSeries(next, series.text, series.fence)
    own.passes, own.isPlain = passes, ${takes("settle: flow members")}
    ofMembers[passes], seriesByKey[passes .. US .. series.fence .. US .. series.text] = own, own
  end
  return own
end

-- What plain endings of one next share where their states differ in times alone: the parts of their texts around
-- attempts, times and result, and their event. false for a rest of which no such ending is made. passes: of members of
-- flows, along how many edges their ends go at once.
local function templateOf(c, next, rest, passes)
  local job = { state = RUNNING, fence = HOLE, settledFence = HOLE, uniqueKey = "" }
  -- A state without fence and id.
  if isOfFlow(RUNNING .. US .. US .. rest) ~= (passes ~= nil) then return false end
  if byte(rest) ~= US_BYTE or not readRest(job, rest, #US + 1) then return false end
  local t = { hasKey = find(job.flags, HAS_KEY, 1, true) ~= nil, hasGates = find(job.flags, HAS_GATES, 1, true) ~= nil }
  t.hasUses = t.hasGates or passes ~= nil
  t.attempts, t.route, t.claimedAt = job.attempts, job.route, job.claimedAt
  local mark = job.startedAt == "" and NOTED_UNREPORTED or NOTED
  if job.startedAt == job.claimedAt then job.startedAt = HOLE end
  job.claimedAt = HOLE
  if passes then
    -- What runs has passed nothing on.
    if readWaits(job.waits).passed ~= 0 then return false end
    job.flow, job.waits = HOLE, withPassed(job.waits, passes)
  end
  finish({ now = c.now, at = HOLE }, job, next)
  job.settledFence, job.attempts, job.result = job.fence, HOLE, HOLE
  t.parts, t.state = split(restOf(job), HOLE), job.state
  t.event = eventOf(job, next.event, false, mark)
  return t
end

-- The same, and the time of the claim. Remembered by the library where nothing in it is of one job or of this call.
local function recallTemplate(c, series, rest)
  local shared, claimedAt = cutTimes(rest)
  if not shared or series.next.keepMs ~= "" then
    local t = templateOf(c, series.next, rest, series.passes)
    return t, t and t.claimedAt
  end
  local key = (series.passes or "") .. series.text .. shared
  local t = recall(c, key)
  if t == nil then
    t = templateOf(c, series.next, rest, series.passes)
    if t then keep(c, key, t) end
  end
  return t, claimedAt
end

-- Plain endings of one call whose states have the same after the id.
local function prepare(c, series, rest)
  local t, claimedAt = recallTemplate(c, series, rest)
  local ending = { jobs = 0, rest = rest, isPlain = t and not (t.hasKey and #c.shapes > 0) }
  if ending.isPlain then
    ending.hasKey, ending.hasGates, ending.hasUses = t.hasKey, t.hasGates, t.hasUses
    ending.attempts, ending.route = t.attempts, t.route
    ending.before = t.state .. US .. series.fence .. US
    ending.middle, ending.behind = fillEnding(t.parts, claimedAt, c.at), t.parts[#t.parts]
    ending.bundle = bundleOf(c, t.event, t.state)
  end
  series.endings[rest] = ending
  return ending
end

-- The next settle from a place on becomes what the series ends as. Answers whether it is one of a set: it runs under
-- the fence of the series, and nobody in the call has it in view. Jobs that differ in their uses alone have the same
-- ending.
local function meetEnding(c, series, s, at)
  local h, state, id, jobs = c.args[s.before + at + 1], s.states[at + 1], c.args[c.i], c.jobs
  if not series.isPlain or not state or c.done[h] or jobs and jobs[h] ~= nil then return false end
  if s.hasAttempts then id = sub(id, 1, find(id, US, 1, true) - 1) end
  local idAt = series.idAt
  if find(state, series.running, 1, true) ~= 1 or find(state, id, idAt, true) ~= idAt then return false end
  local rest = match(state, "^.*\31", idAt + #id) or ""
  series.last = series.endings[rest] or prepare(c, series, rest)
  return series.last.isPlain
end

-- An end of a member goes along its edges. Answers whether nothing but a count was needed: others wait for it that wait
-- for the one before it already.
local function countAlong(c, passing, to)
  local counted = not c.isOneByOne and passing.counted
  if not (counted and counted[to]) then return false end
  counted[to] = counted[to] + 1
  return true
end

-- Ends those from a place on that look like the last ending of their series, with all that they share at hand; of
-- members of flows those with this passing. Answers the place of the last.
local function endAlike(c, series, s, at, stop, passing)
  local ending, args, i, first, before, states = series.last, c.args, c.i, at, s.before, s.states
  local running, idAt, rest, done, written = series.running, series.idAt, ending.rest, c.done, c.states
  local handles, hasAttempts, hasResults = series.handles, s.hasAttempts, s.hasResults
  local members, jobs = s.members, c.jobs
  local head, middle, tail, g, hasGates = ending.before, ending.middle, ending.behind, ending.bundle, ending.hasGates
  if not ending.isPlain then return at end
  -- Most have nothing to look at beside their texts.
  local hasUses, hasMore = ending.hasUses, jobs or passing or hasGates or ending.hasKey
  local w, n, gn, ids, restLength, left = c.statesAt, series.n, g.n, g.ids, #rest, nil
  while at < stop do
    local h, state, ended = args[before + at + 1], states[at + 1], args[i]
    local id, entry, result = ended, ended, ""
    if hasAttempts then id = sub(ended, 1, find(ended, US, 1, true) - 1) end
    local restAt = idAt + #id
    local restEnd = restAt + restLength
    if
      not state
      or not hasUses and #state ~= restEnd - 1
      or find(state, rest, restAt, true) ~= restAt
      or find(state, id, idAt, true) ~= idAt
      or find(state, running, 1, true) ~= 1
      or done[h]
    then
      break
    end
    if hasMore then
      if
        jobs and jobs[h] ~= nil
        or passing and members[at + 1] ~= passing
        or hasGates and not giveBackUses(c, state, restEnd)
      then
        break
      end
      if ending.hasKey then c.keyHolders[#c.keyHolders + 1] = h end
    end
    -- The id and its note: a short attempt log as it came, most often.
    if not hasAttempts then
      entry, ended = id .. US, id .. US .. ending.attempts
    elseif #ended > #id + 1 + NOTE_MAX then
      entry = id .. US
    end
    if hasResults then
      i = i + 1
      result = args[i]
    end
    ended = head .. ended .. middle .. result .. tail
    at, i, n, gn = at + 1, i + 1, n + 1, gn + 1
    written[w + 1], written[w + 2] = h, ended
    w, done[h], handles[n], g[gn], ids[gn] = w + 2, ended, h, entry, id
    if passing and not countAlong(c, passing, series.next.to) then
      left = id
      break
    end
  end
  c.i, c.statesAt, series.n, g.n, ending.jobs = i, w, n, gn, ending.jobs + at - first
  if left then goAlong(c, passing, left, series.next.to) end
  return at
end

-- The set path of settles: ends those from a place on that are of a set, whatever they look like. Answers the place of
-- the last.
local function endSet(c, series, s, at, stop, passing)
  local hasMet = false
  while at < stop and not (passing and s.members[at + 1] ~= passing) do
    local to = endAlike(c, series, s, at, stop, passing)
    if to == at and (hasMet or not meetEnding(c, series, s, at)) then return at end
    hasMet, at = to == at, to
  end
  return at
end

-- The jobs of a series that ended as a set leave the leases for the lists of their outcome.
local function writeEndings(c, series)
  local k, to, keepUntil = c.k, series.next.to, after(c, series.next.keepMs or "")
  if series.passes then keepUntil = KEPT_FOREVER_AT end
  if series.n == 0 then return end
  many("ZREM", k.lease, series.handles)
  if keepUntil == "" then appendEnded(k, to, num(floor(c.now / MINUTE_MS)), series.handles) end
  local isKept = isKeptUntil(keepUntil)
  for _, h in ipairs((isKept or isBad(to)) and series.handles or NONE) do
    if isKept then push2(c.zadd, k.keep, keepUntil, h) end
    if isBad(to) then push2(c.zadd, k.bad .. to, seqOf(h), h) end
  end
  for _, ending in pairs(series.endings) do
    if ending.jobs > 0 then
      count(c, ending.route, RUNNING, -ending.jobs)
      count(c, ending.route, to, ending.jobs)
      if c.life.gates then returnPermits(c, ending.route) end
      if ending.hasGates then c.freed[ending.route] = true end
    end
  end
end

-- The jobs that ended as a set free the keys that they hold, as finish (rules.lua.ts) does.
local function freeKeys(c)
  local handles = c.keyHolders
  if #handles == 0 then return end
  local keys, held, gone = keysIn(fetch("HMGET", c.k.spec, handles)), {}, {}
  for _, key in ipairs(keys) do
    held[#held + 1] = key or ""
  end
  local holders = fetch("HMGET", c.k.uniq, held)
  for i, key in ipairs(keys) do
    local holder = key and holders[i] and readFields(holders[i], "holder")
    if holder and holder.handle == handles[i] and (holder.hold == HOLD_END or holder.hold == HOLD_STARTED) then
      gone[#gone + 1] = key
    end
  end
  many("HDEL", c.k.uniq, gone)
end

local function refusalOf(c, h, id, fence)
  local present = handleById(c, id)
  if not present then return "gone" end
  local job = present == h and jobOf(c, h)
  return job and job.settledFence == fence and "already" or "stale"
end

-- Seen and entries of a settle of a durable run.
local function nextJournal(c)
  local journal = { seen = nextArg(c) }
  for i = 1, nextNumber(c) do
    journal[i] = readFields(nextArg(c), "entry")
  end
  return journal
end

-- R2: why a settle that has seen so much is not applied.
local function unseen(job, journal)
  local seen = tonumber(journal.seen)
  if not seen or seen == job.last then return nil end
  return job.last > seen and "arrived" .. US .. num(job.last) or "stale"
end

-- One settle by the job's tables. Answers a refusal, or nothing and the job.
local function settleOne(c, h, id, fence, next, attempts, journal)
  local job = jobOf(c, h)
  if not job or job.id ~= id or job.state ~= RUNNING or job.fence ~= fence then return refusalOf(c, h, id, fence) end
  if job.cancelAsked == "1" and next.kind ~= "finish" then return "cancel-asked" end
  local refusal = journal and unseen(job, journal)
  if refusal then return refusal end
  touch(c, job)
  if journal then appendEntries(c, job, journal) end
  local note = noteOf(job, attempts)
  if attempts ~= "" then job.attempts = attempts end
  job.settledFence = fence
  apply(c, job, next, note)
  return nil, job
end

-- Any settle, with its effects. Answers a refusal or nothing.
local function settleAny(c, series, s, h, id, attempts, result)
  widen(c)
  local journal = s.hasJournals and nextJournal(c)
  local unit, next = s.hasEffects and nextUnit(c), series.next
  next.result = result
  local refusal = whole(c, unit and unit.isLate, function()
    local refusal, job = settleOne(c, h, id, series.fence, next, attempts, journal)
    if not refusal and unit then refusal = submitUnit(c, false, unit) end
    if not refusal then follow(c, job, RUNNING, next) end
    return refusal
  end)
  if unit then c.i = unit.stop end
  return refusal
end

-- The passing of a running member whose state says its edges; nothing where it does not. Members with the same edges of
-- one flow share it. passings: by uses, and in order.
local function passingIn(c, state, passings)
  local uses = match(state, "^.*(\31.*)$")
  local passing = passings[uses]
  if passing then
    passing.ends = passing.ends + 1
  else
    local flow, edges = edgesInUses(sub(uses, #US + 1))
    if not flow then return nil end
    passing = passingOf(c, flow, edges, 0, AT_ONCE)
    passing.uses, passings[uses], passings[#passings + 1] = uses, passing, passing
  end
  return passing
end

-- The members of flows among the settles from one place on, by their places, and in view all that their ends arrive at,
-- by a few commands for all of them.
local function loadMembers(c, s, from, to)
  widen(c)
  takeTargets(c)
  local members, wanted, handles, passings, jobs, last, uses = {}, {}, {}, {}, c.jobs, nil, HOLE
  if not c.targets then return members end
  for i = from, to do
    local h, state = c.args[s.before + i], s.states[i]
    local isOpen = state and jobs[h] == nil
    -- Most have the uses of the one before. Those of a member begin as no others do.
    if isOpen and find(state, uses, #state - #uses + 1, true) then
      last.ends = last.ends + 1
      members[i] = last
    -- The flag of a flow is the last one. What has this text elsewhere has no flow in its state or its spec.
    elseif isOpen and find(state, HAS_FLOW .. US, 1, true) then
      local passing = passingIn(c, state, passings)
      members[i] = passing
      if passing then
        last, uses = passing, passing.uses
      else
        wanted[#wanted + 1], handles[#handles + 1] = i, h
      end
    end
  end
  for i, spec in ipairs(fetch("HMGET", c.k.spec, handles)) do
    local flow, edges = edgesIn(spec or "")
    if flow and flow ~= "" then
      local passing = passingOf(c, flow, edges, 0, AT_ONCE)
      members[wanted[i]], passings[#passings + 1] = passing, passing
    end
  end
  loadTargets(c, passings)
  return members
end

-- The path of members of flows: ends those from a place on that have the passing of the first, and goes along its
-- edges.
local function endMembers(c, seriesByKey, series, s, at, stop)
  local passing = s.members[at + 1]
  local own = passing.own
  if not own or passing.ownOf ~= series then
    own = seriesOfMembers(seriesByKey, series, passing.to)
    passing.own, passing.ownOf = own, series
  end
  return endSet(c, own, s, at, stop, passing)
end

-- The general path: one settle, with its effects. Answers a refusal or nothing.
local function endOne(c, series, s, at)
  local h, id, ended, result = c.args[s.before + at + 1], c.args[c.i], c.args[c.i], ""
  c.i = c.i + 1
  if s.hasAttempts then id = sub(ended, 1, find(ended, US, 1, true) - 1) end
  if s.hasResults then result = nextArg(c) end
  return settleAny(c, series, s, h, id, sub(ended, #id + 2), result)
end

function OPERATIONS.settle(c)
  local refused = readShapes(c)
  if refused then return refused end
  local total, refusals, seriesByKey, at = nextNumber(c), {}, {}, 0
  local s = { before = c.i - 1, states = fetch("HMGET", c.k.state, c.args, c.i, c.i + total - 1), members = nil }
  c.i, c.states, c.statesAt, c.done, c.keyHolders, c.freed = c.i + total, {}, 0, {}, {}, {}
  while at < total do
    local length, series = nextNumber(c), seriesOf(seriesByKey, nextArg(c), nextArg(c))
    local stop, hasMore = at + length, nil
    s.hasAttempts, s.hasResults, hasMore = nextFlag(c), nextFlag(c), nextArg(c)
    s.hasEffects, s.hasJournals = hasMore == "1" or hasMore == "3", hasMore == "2" or hasMore == "3"
    hasMore = hasMore ~= "0"
    -- Every settle with a journal takes the general path.
    if s.hasJournals and length > 1 then
      widen(c)
      loadJobs(c, slice(c.args, s.before + at + 1, s.before + stop))
    end
    while at < stop do
      local from = at
      if not hasMore and not (s.members and s.members[at + 1]) then at = endSet(c, series, s, at, stop) end
      if at == stop then break end
      s.members = s.members or loadMembers(c, s, at + 1, total)
      if not hasMore and s.members[at + 1] then at = endMembers(c, seriesByKey, series, s, at, stop) end
      if at == from then
        local refusal = endOne(c, series, s, at)
        at = at + 1
        if refusal then add2(refusals, at - 1, refusal) end
      end
    end
  end
  if s.members then leaveTargets(c) end
  for _, series in pairs(seriesByKey) do
    writeEndings(c, series)
  end
  freeKeys(c)
  if c.back then freeGates(c, c.freed) end
  writeRecords(c)
  return refusals
end
`,
});
