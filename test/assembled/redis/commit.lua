-- library/commit
module(function()
local add2, addRoute, count, flagsOf, hasDueDocs = M.add2, M.addRoute, M.count, M.flagsOf, M.hasDueDocs
local hasRung, isBad, isKeptUntil, isTerminal = M.hasRung, M.isBad, M.isKeptUntil, M.isTerminal
local journalKeys, leavePage, many, noteMove, num = M.journalKeys, M.leavePage, M.many, M.noteMove, M.num
local push, push2, returnPermits, seqOf, setHead = M.push, M.push2, M.returnPermits, M.seqOf, M.setHead
local setReady, specOf, stateOf, tagsIn, tailOf = M.setReady, M.specOf, M.stateOf, M.tagsIn, M.tailOf
local usersOf, usesOfFlow, whereIs, writeJoins = M.usersOf, M.usesOfFlow, M.whereIs, M.writeJoins
local writeJournal, writeLanes = M.writeJournal, M.writeLanes

-- A list that is new is listed itself.
local function appendEnded(k, state, minute, handles)
  local list, n = k.ended .. state .. ":" .. minute, #handles
  for i = 1, n, CHUNK do
    local size = min(CHUNK, n - i + 1)
    local length = call("RPUSH", list, unpack(handles, i, i + size - 1))
    if length == size then call("ZADD", k.ends .. state, minute, minute) end
  end
end

local function setDue(c, at)
  local n = tonumber(at)
  if not c.due or n < c.due then c.due = n end
end

-- The due time of a document: one that is due already hides no clock.
local function setDocDue(c, at)
  if tonumber(at) <= c.now then
    c.hasDueDocs = true
  else
    setDue(c, at)
  end
end

-- A job leaves the store. was: its route and state, and where the indexes had it.
local function leave(c, h, was)
  local k = c.k
  push(c, "gone", h)
  if was.key then push(c.zrem, was.key, h) end
  if was.clock then push(c.zrem, k.clock, h) end
  if was.keep then push(c.zrem, k.keep, h) end
  if was.result then push(c.zrem, k.results, h) end
  if isBad(was.state) then push(c.zrem, k.bad .. was.state, h) end
  count(c, was.route, was.state, -1)
  if was.state == RUNNING and c.life.gates then returnPermits(c, was.route) end
  if was.laneKey and was.laneKey ~= "" then noteMove(c, h, was, nil) end
  leavePage(c, h)
end

local function writeTags(c, h, old, tags)
  if old == tags then return end
  for _, tag in ipairs(tagsIn(old)) do
    push(c.zrem, c.k.tag .. tag, h)
  end
  for _, tag in ipairs(tagsIn(tags)) do
    push2(c.zadd, c.k.tag .. tag, seqOf(h), h)
  end
end

local function unlinkLater(c, ...)
  for _, key in ipairs({ ... }) do
    push(c, "unlinked", key)
  end
end

local function writeGone(c, job)
  leave(c, job.h, job.was)
  writeTags(c, job.h, job.was.tags, "")
  if job.hasLines then push(c, "unlinked", c.k.log .. job.h) end
  if job.hasOutput then unlinkLater(c, c.k.frames .. job.h, c.k.summary .. job.h) end
  if job.durable ~= "0" then unlinkLater(c, journalKeys(c.k, job.h)) end
end

local function writeEnd(c, job)
  local k, h, state = c.k, job.h, job.state
  if isKeptUntil(job.keepUntil) then
    push2(c.zadd, k.keep, job.keepUntil, h)
  elseif job.keepUntil == "" then
    c.ended = c.ended or {}
    push(c.ended, state .. num(floor(job.endedAt / MINUTE_MS)), h)
  end
  if job.resultUntil ~= "" then push2(c.zadd, k.results, job.resultUntil, h) end
  if isBad(state) then push2(c.zadd, k.bad .. state, seqOf(h), h) end
end

local function writeJob(c, job)
  local k, was, h, state = c.k, job.was, job.h, job.state
  local key, score, clock = whereIs(k, job)
  if job.appended or job.round then writeJournal(c, job) end
  job.flags = flagsOf(job)
  if not was or job.isRewritten then
    tailOf(job)
    push2(c, "specs", h, specOf(job))
  end
  -- Where a job stands that nobody has touched follows from its spec, but for one that is born blocked.
  if was or job.rev > 1 or state == BLOCKED then
    if job.waits ~= "" then job.uses = usesOfFlow(job) end
    job.stateText = stateOf(job)
    push2(c, "states", h, job.stateText)
  end
  writeTags(c, h, was and was.tags or "", job.tags)
  if was then
    if was.key and was.key ~= key then push(c.zrem, was.key, h) end
    if was.clock and clock == "" then push(c.zrem, k.clock, h) end
    if was.keep and not isKeptUntil(job.keepUntil) then push(c.zrem, k.keep, h) end
    if was.result and job.resultUntil == "" then push(c.zrem, k.results, h) end
    if isBad(was.state) and was.state ~= state then push(c.zrem, k.bad .. was.state, h) end
    if was.state == RUNNING and state ~= RUNNING and c.life.gates then returnPermits(c, was.route) end
  end
  if not was or was.state ~= state or was.route ~= job.route then
    if was then count(c, was.route, was.state, -1) end
    count(c, job.route, state, 1)
  end
  if key then
    push2(c.zadd, key, score, h)
    if state == READY and (not was or was.key ~= key) then setReady(c, job.route) end
    if state == SCHEDULED or (state == RUNNING and was and was.state == RUNNING) then setDue(c, score) end
    if state == SUSPENDED then
      c.life.hasWakes = true
      setDue(c, score)
    end
  elseif isTerminal(state) and (not was or was.state ~= state or was.endedAt ~= job.endedAt) then
    writeEnd(c, job)
  end
  if clock ~= "" then
    push2(c.zadd, k.clock, clock, h)
    setDue(c, clock)
  end
end

-- A claim of lanes writes what it takes with the lanes.
local function writeLaneOf(c, job)
  if job.isLaneWritten then
    job.isLaneWritten = nil
  else
    noteMove(c, job.h, job.was, job)
  end
end

local function writeJobs(c)
  local dirty = c.dirty
  c.dirty = {}
  for _, job in ipairs(dirty) do
    if job.isDirty then
      job.isDirty = false
      if not job.isGone then
        writeJob(c, job)
        if job.laneKey ~= "" or job.was and job.was.laneKey ~= "" then writeLaneOf(c, job) end
        job.isRewritten, job.spec, job.tailAt = nil, job.spec or "", job.tailAt or 1
        job.isKept = true
      elseif job.was then
        writeGone(c, job)
      end
    end
  end
end

-- Entries of a hash that changed; those that end by themselves stand in an index by their end.
local function writeChanged(c, view, hash, index, ending, textOf)
  local set, gone, timed, free = {}, {}, {}, {}
  for key in pairs(c.changed[view]) do
    local entry = c[view][key]
    if entry then
      add2(set, key, textOf(entry))
    else
      gone[#gone + 1] = key
    end
    if entry and entry[ending] ~= "" then
      add2(timed, entry[ending], key)
    else
      free[#free + 1] = key
    end
  end
  many("HDEL", hash, gone)
  many("HSET", hash, set)
  many("ZREM", index, free)
  many("ZADD", index, timed)
  c.changed[view] = {}
  return set, gone
end

local function holderText(holder) return concat({ holder.handle, holder.hold, holder.heldUntil, holder.id }, US) end

local function docText(doc) return concat({ num(doc.version), doc.dueAt, doc.expiresAt, doc.body }, US) end

local function writeDocs(c)
  local k, listed = c.k, {}
  local set, gone = writeChanged(c, "docs", k.doc, k.docttl, "expiresAt", docText)
  local timed, free = {}, {}
  for i = 1, #set, 2 do
    local dueAt = c.docs[set[i]].dueAt
    add2(listed, 0, set[i])
    if dueAt == "" then
      free[#free + 1] = set[i]
    else
      add2(timed, dueAt, set[i])
      setDocDue(c, dueAt)
      c.life.hasDueDocs = true
    end
  end
  if hasDueDocs(c) then
    many("ZREM", k.docdue, free)
    many("ZREM", k.docdue, gone)
    many("ZADD", k.docdue, timed)
  end
  many("ZREM", k.docs, gone)
  many("ZADD", k.docs, listed)
  -- The versions of documents that are gone are never given again.
  if c.isFloorRaised then call("HSET", k.meta, "docFloor", num(c.docFloor)) end
  c.isFloorRaised = false
end

local function writeIds(c)
  for id in pairs(c.changed.ids) do
    if c.ids[id] then
      push2(c, "newIds", id, c.ids[id])
    else
      push(c, "goneIds", id)
    end
  end
  c.changed.ids = {}
end

-- A page is counted when its last seq was given: then all its jobs come at once, and those that have left before were
-- counted below zero.
local function fillPages(c)
  local life = c.life
  for page = floor((life.seq + 1) / PAGE), floor((c.seq + 1) / PAGE) - 1 do
    c.pages = c.pages or {}
    -- No job has the seq 0.
    c.pages[page] = (c.pages[page] or 0) + (page == 0 and PAGE - 1 or PAGE)
    c.filled = c.filled or {}
    c.filled[page] = true
  end
  -- Before anything is written: what a call that breaks off has given is never given again.
  life.seq = c.seq
end

local function writePages(c)
  local filled = c.filled or {}
  for page, by in pairs(c.pages) do
    local left = call("HINCRBY", c.k.page, page, by)
    if left == 0 then
      call("HDEL", c.k.page, page)
      call("ZREM", c.k.pages, page)
    elseif filled[page] then
      call("ZADD", c.k.pages, page, page)
    end
  end
  c.pages, c.filled = nil, nil
end

-- Routes whose ready jobs were none before are worth a hint to everybody.
local function wake(c)
  for route in pairs(c.ready) do
    local key = c.k.ready .. route
    -- Jobs that wait there but cannot be claimed must not keep the hint back.
    if c.zadd[key] and (call("EXISTS", key) == 0 or hasRung(c)) then push(c, "woken", route) end
  end
end

local function writeRoutes(c)
  for route, content in pairs(c.newRoutes) do
    call("HSET", c.k.route, route, content)
    c.life.routes[route] = content
    if c.life.gates then addRoute(c.life.gates, route, content) end
  end
  c.newRoutes = nil
end

-- An index of scheduled jobs has changed: the place of its route follows (setHead).
local function noteHead(c, key)
  local dueOf = c.k.dueOf
  if sub(key, 1, #dueOf) ~= dueOf then return end
  c.heads = c.heads or {}
  c.heads[sub(key, #dueOf + 1)] = true
end

local function takeOutRecords(c)
  local k = c.k
  many("HDEL", k.spec, c.gone)
  many("HDEL", k.state, c.gone)
  many("HDEL", k.ids, c.goneIds)
  for i = 1, #c.unlinked, CHUNK do
    call("UNLINK", unpack(c.unlinked, i, min(i + CHUNK - 1, #c.unlinked)))
  end
  for key, list in pairs(c.zrem) do
    many("ZREM", key, list)
    noteHead(c, key)
  end
  c.gone, c.goneIds, c.unlinked, c.zrem = {}, {}, {}, {}
end

-- A short sorted set is a list that is searched from its head for every new entry: of 128 that come together each costs
-- 21,000 instructions, and in a tree 4,000. A long entry makes a tree of a set that is about to grow.
local TREE_ENTRY, LIST_MAX, GROWS_BY_MIN = LONG_ENTRY .. "~", 128, 48

local function addMany(key, list)
  local isToGrow = #list >= 2 * GROWS_BY_MIN and call("ZCARD", key) < LIST_MAX
  if isToGrow then call("ZADD", key, "0", TREE_ENTRY) end
  many("ZADD", key, list)
  if isToGrow then call("ZREM", key, TREE_ENTRY) end
end

local function writeRecords(c)
  local k = c.k
  if c.seq > c.life.seq then fillPages(c) end
  if c.jobs then
    writeJobs(c)
    writeIds(c)
    writeChanged(c, "uniq", k.uniq, k.held, "heldUntil", holderText)
    writeDocs(c)
    takeOutRecords(c)
  end
  if c.newRoutes then writeRoutes(c) end
  if c.ready then wake(c) end
  if c.specs then many("HSET", k.spec, c.specs) end
  if c.states then many("HSET", k.state, c.states) end
  if c.newIds then many("HSET", k.ids, c.newIds) end
  for key, list in pairs(c.zadd) do
    addMany(key, list)
    noteHead(c, key)
  end
  if c.heads then
    for route in pairs(c.heads) do
      setHead(k, route)
    end
  end
  if c.ended then
    for key, handles in pairs(c.ended) do
      appendEnded(k, sub(key, 1, 1), sub(key, 2), handles)
    end
  end
  if c.pages then writePages(c) end
  for field, by in pairs(c.counts) do
    if by ~= 0 then call("HINCRBY", k.counts, field, by == 1 and "1" or num(by)) end
  end
  if c.joins then writeJoins(c) end
  if c.laneWork then writeLanes(c) end
  c.specs, c.states, c.newIds, c.ended, c.heads, c.zadd, c.counts = nil, nil, nil, nil, nil, {}, {}
end

-- The ids that ended, id and owner of running jobs whose cancel was asked for, and whose journals have grown, and the
-- ids of those that have written output.
local function hintOf(c)
  local finished, cancels, signals, outputs = "", {}, {}, {}
  for _, g in ipairs(c.order) do
    if g.n > 1 then
      if isTerminal(g.state) then
        finished = (finished == "" and "" or finished .. US) .. concat(g.ids, US, 2, g.n)
      elseif g.isOutput then
        for i = 2, g.n do
          outputs[#outputs + 1] = g.ids[i]
        end
      elseif g.owner ~= "" then
        for i = 2, g.n do
          add2(g.isSignal and signals or cancels, g.ids[i], sub(g.owner, 2))
        end
      end
    end
  end
  return finished, concat(cancels, US), concat(signals, US), concat(outputs, US)
end

local function appendFeed(c, events)
  local life = c.life
  -- The number is taken before the record is written: one that is lost is a gap, one that came twice would be refused
  -- for ever.
  life.feed = life.feed + 1
  call("XADD", c.k.feed, num(life.feed) .. "-1", "a", c.at, "b", events, "s", num(life.seq))
end

local function writeFeed(c)
  local bundles = {}
  for _, g in ipairs(c.order) do
    if g.n > 1 then bundles[#bundles + 1] = concat(g, US) end
  end
  if #bundles > 0 then appendFeed(c, bundles[2] and concat(bundles, RS) or bundles[1]) end
  return #bundles > 0
end

local function hintText(c, woken, due, finished, cancels, signals, outputs)
  local promoted = c.hasPromoted and US .. "1" or ""
  local text = c.sender .. US .. woken .. US .. due .. promoted .. RS .. finished .. RS .. cancels
  if outputs ~= "" then return text .. RS .. RS .. signals .. RS .. outputs end
  return signals == "" and text or text .. RS .. RS .. signals
end

-- Routes that hints name. Where a claim of this call has taken all there was, none is sent.
local function wokenOf(c)
  if not c.woken then return "" end
  local woken = {}
  for _, route in ipairs(c.woken) do
    if not (c.emptied and c.emptied[route]) then woken[#woken + 1] = route end
  end
  return concat(woken, ",")
end

-- A permit came back or a gate was put: its routes may have jobs that pass now, whichever process serves them.
local function wakeGates(c)
  local known = {}
  for _, route in ipairs(c.woken or {}) do
    known[route] = true
  end
  for gate in pairs(c.opened) do
    for _, user in ipairs(usersOf(c, gate)) do
      setReady(c, user.route)
      if not known[user.route] then push(c, "woken", user.route) end
      known[user.route] = true
    end
  end
end

-- Emits what was written. Answers the hint for the caller's own listeners: ready routes, the earliest clock set ("0,"
-- before it where documents are due already), finished ids, cancels, whether the feed has grown, signals and output if
-- there are any.
local function emitCall(c)
  local hasEvents = writeFeed(c)
  if c.opened then wakeGates(c) end
  local routes = ""
  if c.ready then
    for route in pairs(c.ready) do
      routes = (routes == "" and "" or routes .. ",") .. route
    end
  end
  local due = (c.hasDueDocs and "0," or "") .. (c.due and num(max(1, c.due - c.now)) or "")
  local finished, cancels, signals, outputs = hintOf(c)
  local woken = wokenOf(c)
  -- Of claims and of jobs that join others no message goes out: it would wake every process for each of them.
  local isForLeases = cancels ~= "" or signals ~= "" or outputs ~= ""
  if c.hasNews or woken ~= "" or due ~= "" or c.hasPromoted or finished ~= "" or isForLeases then
    call("PUBLISH", c.k.hint, hintText(c, woken, due, finished, cancels, signals, outputs))
  end
  local hint = { routes, due, finished, cancels, hasEvents and 1 or 0 }
  if signals ~= "" or outputs ~= "" or c.kept then
    hint[6], hint[7], hint[8] = signals, outputs, c.kept
  end
  return hint
end

local function writeCall(c)
  writeRecords(c)
  return emitCall(c)
end

M.appendEnded, M.setDue, M.leave, M.noteHead = appendEnded, setDue, leave, noteHead
M.writeRecords, M.emitCall, M.writeCall = writeRecords, emitCall, writeCall
end)
