-- jobs/submit
module(function()
local add2, advance, bundleOf, change, clearForPlace = M.add2, M.advance, M.bundleOf, M.change, M.clearForPlace
local count, docOf, emit, eventOf, flagsOf, grow = M.count, M.docOf, M.emit, M.eventOf, M.flagsOf, M.grow
local handleById, handleOf, hasClosedIntake, headOf = M.handleById, M.handleOf, M.hasClosedIntake, M.headOf
local instant, isBornBlocked, isIntakeClosed, isExpired = M.instant, M.isBornBlocked, M.isIntakeClosed, M.isExpired
local jobOf, joinLane, joinsOf, keep, link, newJob = M.jobOf, M.joinLane, M.joinsOf, M.keep, M.link, M.newJob
local newList, nextArg, nextFlag, nextNumber, num = M.newList, M.nextArg, M.nextFlag, M.nextNumber, M.num
local placeOf, placeText, push, push2, putDoc = M.placeOf, M.placeText, M.push, M.push2, M.putDoc
local readOwn, readShapes, setDue, setReady, split = M.readOwn, M.readShapes, M.setDue, M.setReady, M.split
local stateOf, tagsIn, takeKey, takerOf, touch = M.stateOf, M.tagsIn, M.takeKey, M.takerOf, M.touch
local useRoute, usesOfFlow, whereIs, widen = M.useRoute, M.usesOfFlow, M.whereIs, M.widen
local writeRecords = M.writeRecords

local IDENTITY = { "digest", "uniqueKey" }
-- Of a step whose jobs share the text before their inputs.
local PLUS = 43
local UNSTARTED = { [SCHEDULED] = true, [READY] = true }
local TAGS = "^" .. times(SKIP, 3) .. "([^\31]*)"

-- How many args the parts of a unit have; its head has one more than there are parts.
local PARTS = { { "checks", 2 }, { "jobs", 3 }, { "grows", 4 }, { "links", 2 }, { "docs", 6 } }

-- The head of a unit at an arg: how many it has of each part, where the parts begin and what is after them.
local function unitAt(c, at)
  local unit = { isLate = c.args[at] == "1", first = at + 1 + #PARTS }
  unit.stop = unit.first
  for i, part in ipairs(PARTS) do
    local n = tonumber(c.args[at + i])
    unit[part[1]], unit.stop = n, unit.stop + n * part[2]
  end
  return unit
end

local function nextUnit(c)
  local unit = unitAt(c, c.i)
  c.i = unit.first
  return unit
end

local function nextShape(c) return c.shapes[nextNumber(c)] end

-- R1: a job gets the place that a shape says. Answers the state that follows.
local function placeBy(c, job, shape)
  job.route, job.deadlineAt = shape.route, shape.deadline == "" and "" or num(instant(c, shape.deadline))
  return placeOf(c, job, shape)
end

-- A new job of a shape, without what is its own.
local function placeNew(c, shape)
  local job = newJob()
  job.createdAt = c.at
  job.state = placeBy(c, job, shape)
  return job
end

-- R4: a job that waits for others is blocked from the start.
local function blockAtBirth(job)
  if isBornBlocked(job) then
    job.state, job.ttlAt = BLOCKED, ""
  end
end

-- Due at once, in the order of time, without other clocks: such jobs differ from call to call by their time alone.
local function isUsual(shape)
  return shape.due == "+0"
    and shape.rankBase == "0"
    and shape.rankSlope == "1"
    and shape.deadline == ""
    and shape.ttlMs == ""
end

-- What plain jobs of one shape share: the parts of their spec around id and time, their place in the indexes, their
-- event.
local function templateOf(c, shape)
  local job = placeNew({ now = c.now, at = HOLE, ahead = c.ahead }, shape)
  job.id, job.tags = HOLE, shape.hasTags == "1" and HOLE or ""
  if shape.hasLane == "1" then
    job.laneKey, job.laneGates = HOLE, shape.hasGates == "1" and HOLE or ""
  end
  job.waits, job.freed = shape.waits, shape.freed
  blockAtBirth(job)
  job.flags = flagsOf(job)
  local parts = split(headOf(job) .. US, HOLE)
  local t = { before = parts[1], middle = parts[2], behind = parts[3], state = job.state, dueAt = job.dueAt }
  t.key, t.score, t.clock = whereIs(c.k, job)
  t.event = eventOf(job, SUBMITTED)
  -- Of the jobs that are born, blocked ones alone have a state.
  if t.state == BLOCKED then
    job.uses = usesOfFlow(job)
    t.stateParts = split(stateOf(job), HOLE)
  end
  return t
end

-- The same with the time of this call.
local function prepare(c, shape)
  local route, t = shape.route, shape.template or templateOf(c, shape)
  if not shape.template and c.life.routes[route] and isUsual(shape) then
    shape.template = t
    keep(c, shape.text, shape)
  end
  useRoute(c, route)
  if t.state == READY then
    setReady(c, route)
  elseif t.state == SCHEDULED then
    setDue(c, t.dueAt)
  end
  if t.clock ~= "" then setDue(c, t.clock) end
  local p = { before = t.before, behind = t.middle .. c.at .. t.behind, key = t.key, clock = t.clock, state = t.state }
  local parts = t.stateParts
  if parts then
    p.stateBefore, p.stateBehind = parts[1], concat(parts, c.at, 2)
  end
  p.score, p.bundle = t.score == HOLE and c.at or t.score, bundleOf(c, t.event, t.state)
  if shape.hasLane == "1" and t.state == READY then p.place = placeText(tonumber(p.score)) end
  c.plain[shape] = p
  return p
end

-- The indexes of a body's tags. Most jobs have those of the one before: then its body begins with the same text.
local function tagIndexes(c, body)
  local last = c.tagged
  if last and find(body, last.before, 1, true) == 1 then return last end
  local tags = match(body, TAGS)
  -- Before the tags, a plain job has nothing of its own.
  last = { before = US .. US .. US .. tags .. US }
  for i, tag in ipairs(tagsIn(tags)) do
    last[i] = c.k.tag .. tag
  end
  c.tagged = last
  return last
end

local function tagListsOf(c, body)
  local lists = {}
  for i, index in ipairs(tagIndexes(c, body)) do
    lists[i] = c.zadd[index] or newList(c.zadd, index)
  end
  return lists
end

-- Whether the jobs of a step say what they share once, before them.
local function isLed(step) return byte(step) == PLUS end

local function submitPlain(c, total, hasLead)
  local args, seq, shape = c.args, c.seq, nextShape(c)
  local p, lead = c.plain[shape] or prepare(c, shape), hasLead and nextArg(c)
  local i, before, behind, score, g = c.i, p.before, p.behind .. (lead or ""), p.score, p.bundle
  local specs, ids = c.specs or newList(c, "specs"), c.newIds or newList(c, "newIds")
  -- Handles and what goes with them: scores in the index of those that wait, or the states of those that are blocked.
  local stateBefore, stateBehind, list = p.stateBefore, p.stateBehind, nil
  if stateBefore then
    list = c.states or newList(c, "states")
  else
    list = c.zadd[p.key] or newList(c.zadd, p.key)
  end
  local n, m, z, emitted = #specs, #ids, #list, g.n
  local place, joins, hasTags = p.place, p.place and joinsOf(c), shape.hasTags == "1"
  -- Of jobs that share the text with their tags, the lists of the indexes.
  local tagLists = hasTags and lead and tagListsOf(c, lead)
  for _ = 1, total do
    local id, body = args[i], args[i + 1]
    i = i + 2
    seq = seq + 1
    local h = handleOf(seq)
    specs[n + 1], specs[n + 2] = h, before .. id .. behind .. body
    n = n + 2
    ids[m + 1], ids[m + 2] = id, h
    m = m + 2
    if stateBefore then
      list[z + 1], list[z + 2] = h, stateBefore .. id .. stateBehind
    else
      list[z + 1], list[z + 2] = score, h
    end
    z = z + 2
    emitted = emitted + 1
    g[emitted] = id
    if p.clock ~= "" then push2(c.zadd, c.k.clock, p.clock, h) end
    if tagLists then
      local digits = sub(h, 2)
      for _, tagged in ipairs(tagLists) do
        add2(tagged, digits, h)
      end
    elseif hasTags then
      for _, index in ipairs(tagIndexes(c, body)) do
        push2(c.zadd, index, sub(h, 2), h)
      end
    end
    if joins then joinLane(joins, place, h, shape.route, lead or body) end
  end
  g.n = emitted
  count(c, shape.route, p.state, total)
  c.i, c.seq = i, seq
end

local function create(c, shape, id, own)
  c.seq = c.seq + 1
  local job = placeNew(c, shape)
  useRoute(c, job.route)
  for field, value in pairs(own) do
    job[field] = value
  end
  blockAtBirth(job)
  job.h, job.id = handleOf(c.seq), id
  c.jobs[job.h] = job
  touch(c, job)
  if c.undo then push(c, "undo", function()
    c.jobs[job.h] = false
    job.isDirty = false
  end) end
  change(c, "ids", id, job.h)
  if job.uniqueKey ~= "" then takeKey(c, job) end
  emit(c, job, SUBMITTED)
end

-- R8: the new job finds its key held. The holder is kept, or replaced while no worker has ever taken it; a member of a
-- flow is always kept. Answers how.
local function meet(c, holder, shape, own)
  if shape.onHeld == "keep" or not holder then return "existing" end
  if holder.attempt > 0 or not UNSTARTED[holder.state] or holder.waits ~= "" then return "existing" end
  touch(c, holder)
  clearForPlace(holder)
  local to = placeBy(c, holder, shape)
  useRoute(c, shape.route)
  -- Its identity stays: id, seq, time of its making, digest and key.
  for _, field in ipairs(IDENTITY) do
    own[field] = holder[field]
  end
  for field, value in pairs(own) do
    holder[field] = value
  end
  holder.isRewritten = true
  takeKey(c, holder)
  advance(holder, to)
  emit(c, holder, REPLACED)
  return "replaced"
end

-- Answers how, the id, and whether the id is minted; or nothing and why it is refused: the id is there with another
-- digest, work from outside (isIntake) meets a queue whose intake is closed, or a member of a flow finds its key held.
local function submitJob(c, shape, id, body, isRepeat, isIntake)
  local own = {}
  readOwn(own, body)
  local isMinted = own.digest == ""
  if isRepeat or not isMinted then
    local known = handleById(c, id)
    known = known and jobOf(c, known)
    if known then
      if known.digest ~= own.digest then return nil, "id-differs" end
      return "existing", id, isMinted
    end
  end
  if isIntake and hasClosedIntake(c) and isIntakeClosed(c, shape) then return nil, "intake-closed" end
  local taker = own.uniqueKey ~= "" and takerOf(c, own.uniqueKey)
  if taker and own.waits ~= "" then return nil, "key-held" end
  if taker then return meet(c, jobOf(c, taker.handle), shape, own), taker.id, isMinted end
  create(c, shape, id, own)
  return "created", id, isMinted
end

local function idInField(field) return match(field, "^[^\31]*\31(.*)$") end

-- Answers the field of the first document that has another version than its check says.
local function failedCheck(c, first, checks)
  for i = first, first + checks * 2 - 1, 2 do
    local doc = docOf(c, c.args[i])
    if not doc or isExpired(c, doc) or doc.version ~= tonumber(c.args[i + 1]) then return c.args[i] end
  end
end

-- Members join flows that are there already. Answers the id of what cannot grow.
local function growBy(c, unit)
  for _ = 1, unit.grows do
    local id = nextArg(c)
    if not grow(c, id, nextNumber(c), nextNumber(c), nextNumber(c)) then return id end
  end
  for _ = 1, unit.links do
    local from = nextArg(c)
    if not link(c, from, nextArg(c)) then return from end
  end
end

-- Jobs in order, what grows by them, then documents in order; the first refusal is the answer, "reason US id". Checks
-- come before all, but a repeat asks first whether it has happened. Leaves its args after it whatever it answers.
local function submitUnit(c, isRepeat, unit, isIntake)
  local answer, hasHappened, first, checks = {}, false, c.i, unit.checks
  local function refuse(reason, id)
    c.i = unit.stop
    return reason .. US .. id
  end
  local failed = not isRepeat and failedCheck(c, first, checks)
  if failed then return refuse("doc-changed", idInField(failed)) end
  c.i = first + checks * 2
  for _ = 1, unit.jobs do
    local shape, id, body = nextShape(c), nextArg(c), nextArg(c)
    local how, known, isMinted = submitJob(c, shape, id, body, isRepeat, isIntake)
    if not how then return refuse(known, id) end
    answer[#answer + 1] = how .. US .. known
    -- A unit one of whose minted ids is known has happened whole: nothing grows and no document is put again.
    if isRepeat and how == "existing" and known == id and isMinted then hasHappened = true end
  end
  failed = isRepeat and not hasHappened and failedCheck(c, first, checks)
  if failed then return refuse("doc-changed", idInField(failed)) end
  local closed = not hasHappened and growBy(c, unit)
  if closed then return refuse("flow-closed", closed) end
  for _ = 1, hasHappened and 0 or unit.docs do
    local field = nextArg(c)
    local isPut, _, why = putDoc(c, field, nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c))
    if not isPut then return refuse(why or "doc-changed", idInField(field)) end
  end
  c.i = unit.stop
  return nil, concat(answer, US)
end

-- Tries a unit, of which nothing is left if it is refused. try answers a refusal or nothing, and the answer.
local function whole(c, isLate, try)
  if not isLate then return try() end
  c.undo, c.saved = {}, {}
  local seq = c.seq
  local refusal, answer = try()
  if refusal then
    for i = #c.undo, 1, -1 do
      c.undo[i]()
    end
    c.seq = seq
  end
  c.undo, c.saved = nil, nil
  return refusal, answer
end

-- Whether a series of plain jobs is of a queue whose intake is closed. Looked for before anything is written, because
-- the units of a series cannot be told apart.
local function closesPlain(c)
  local i, args = c.i, c.args
  while i <= c.last do
    local total = tonumber(args[i])
    if total < 0 then
      i = i + 2 - 2 * total
    elseif total == 0 then
      i = unitAt(c, i + 2).stop
    else
      if isIntakeClosed(c, c.shapes[tonumber(args[i + 1])]) then return true end
      i = i + (isLed(args[i]) and 3 or 2) + 2 * total
    end
  end
  return false
end

function OPERATIONS.submit(c)
  local refused = readShapes(c)
  if refused then return refused end
  local answers, isAnyClosed = {}, hasClosedIntake(c)
  if isAnyClosed and closesPlain(c) then return "intake-closed" end
  while c.i <= c.last do
    local step = nextArg(c)
    local total = tonumber(step)
    if total > 0 then
      submitPlain(c, total, isLed(step))
    elseif total < 0 then
      -- A document is looked at as it was: nothing of this call has put one, but a unit before it may have.
      widen(c)
      local behind = nextNumber(c)
      local failed = failedCheck(c, c.i, -total)
      c.i = c.i - 2 * total + (failed and behind or 0)
      answers[#answers + 1] = failed and "refused" .. US .. "doc-changed" .. US .. idInField(failed) or "ok"
    else
      -- What went before is written, so that the unit can meet it.
      if c.specs then writeRecords(c) end
      widen(c)
      local isRepeat, unit = nextFlag(c), nextUnit(c)
      local isLate = unit.isLate or isAnyClosed and unit.jobs > 1
      local refusal, answer = whole(c, isLate, function() return submitUnit(c, isRepeat, unit, true) end)
      answers[#answers + 1] = refusal and "refused" .. US .. refusal or "ok" .. (unit.jobs > 0 and US or "") .. answer
    end
  end
  writeRecords(c)
  return answers
end

M.nextUnit, M.submitUnit, M.whole = nextUnit, submitUnit, whole
end)
