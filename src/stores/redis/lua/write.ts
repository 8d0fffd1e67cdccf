/**
 * The end of a call: all it changed is written, by commands over many values, then one record goes to the feed and one hint to those who listen
 * (R10). Nothing here can be refused.
 *
 *  hint   sender US mark of the entry US routes that became ready, by comma US earliest clock set, relative US RS finished id US id .. RS id US owner US ..
 *         The mark says under which entry the routes have these numbers (base.ts).
 */
export const writeLua = String.raw`
-- A list that is new is listed itself.
local function appendEnded(k, status, minute, handles)
  local list, n = k.ended .. status .. ":" .. minute, #handles
  for i = 1, n, CHUNK do
    local size = min(CHUNK, n - i + 1)
    if call("RPUSH", list, unpack(handles, i, i + size - 1)) == size then call("ZADD", k.ends .. status, minute, minute) end
  end
end

local function isBad(status) return status > COMPLETED end

local function writeDropped(c, job)
  local k, was = c.k, job.was
  c.goneSpecs[#c.goneSpecs + 1] = job.h
  c.goneStates[#c.goneStates + 1] = job.h
  if was.tags ~= "" then
    for _, tag in ipairs(split(was.tags, RS)) do push(c.zrem, k.tag .. tag, job.h) end
  end
  if job.hasLines then c.trails[#c.trails + 1] = k.trail .. job.h end
  if was.key then push(c.zrem, was.key, job.h) end
  if was.clock then push(c.zrem, k.clock, job.h) end
  if was.keep then push(c.zrem, k.keep, job.h) end
  if isBad(was.status) then push(c.zrem, k.bad .. was.status, job.h) end
  count(c, was.route, was.status, -1)
  leavePage(c, job.h)
end

local function writeTags(c, job, was)
  local old = was and was.tags or ""
  if old == job.tags then return end
  if old ~= "" then
    for _, tag in ipairs(split(old, RS)) do push(c.zrem, c.k.tag .. tag, job.h) end
  end
  if job.tags ~= "" then
    for _, tag in ipairs(split(job.tags, RS)) do push2(c.zadd, c.k.tag .. tag, seqOf(job.h), job.h) end
  end
end

local function setReady(c, route)
  c.ready = c.ready or {}
  c.ready[route] = true
end

local function setDue(c, at)
  local n = tonumber(at)
  if not c.due or n < c.due then c.due = n end
end

local function writeJob(c, job)
  local k, was = c.k, job.was
  local key, score, clock = placeOf(k, job)
  if not was or job.isRewritten then
    tailOf(job)
    push2(c, "specs", job.h, specOf(job))
  end
  if was or job.rev > 1 then
    push2(c, "states", job.h, stateOf(job))
  end
  writeTags(c, job, was)
  if was then
    if was.key and was.key ~= key then push(c.zrem, was.key, job.h) end
    if was.clock and clock == "" then push(c.zrem, k.clock, job.h) end
    if was.keep and job.keep == "" then push(c.zrem, k.keep, job.h) end
    if isBad(was.status) and was.status ~= job.status then push(c.zrem, k.bad .. was.status, job.h) end
    count(c, was.route, was.status, -1)
  end
  count(c, job.route, job.status, 1)
  if key then
    push2(c.zadd, key, score, job.h)
    if job.status == READY and (not was or was.key ~= key) then setReady(c, job.route) end
    if job.status == SCHEDULED or (job.status == RUNNING and was and was.status == RUNNING) then setDue(c, score) end
  elseif not was or was.status ~= job.status or was.ended ~= job.ended then
    if job.keep ~= "" then push2(c.zadd, k.keep, job.keep, job.h)
    else
      c.ended = c.ended or {}
      push(c.ended, job.status .. num(floor(job.ended / MINUTE)), job.h)
    end
    if isBad(job.status) then push2(c.zadd, k.bad .. job.status, seqOf(job.h), job.h) end
  end
  if clock ~= "" then
    push2(c.zadd, k.clock, clock, job.h)
    setDue(c, clock)
  end
end

local function writeJobs(c)
  local dirty = c.dirty
  c.dirty = {}
  for _, job in ipairs(dirty) do
    if job.dirty then
      job.dirty = false
      if job.dropped then
        if job.was then writeDropped(c, job) end
      else
        writeJob(c, job)
        job.isRewritten, job.spec, job.tailAt = nil, job.spec or "", job.tailAt or 1
        remember(c.k, job)
      end
    end
  end
end

local function writeKeys(c)
  local k, set, gone, held, free = c.k, {}, {}, {}, {}
  for key in pairs(c.uniqDirty) do
    local entry = c.uniq[key]
    if entry then
      set[#set + 1] = key
      set[#set + 1] = concat({ entry.h, entry.hold, entry.till, entry.id }, US)
    else gone[#gone + 1] = key end
    if entry and entry.till ~= "" then
      held[#held + 1] = entry.till
      held[#held + 1] = key
    else free[#free + 1] = key end
  end
  many("HDEL", k.uniq, gone)
  many("HSET", k.uniq, set)
  many("ZREM", k.held, free)
  many("ZADD", k.held, held)
  c.uniqDirty = {}
end

local function writeDocs(c)
  local k, set, gone, listed, timed, free = c.k, {}, {}, {}, {}, {}
  for field in pairs(c.docsDirty) do
    local doc = c.docs[field]
    if doc then
      set[#set + 1] = field
      set[#set + 1] = concat({ num(doc.version), doc.due, doc.expires, doc.body }, US)
      listed[#listed + 1] = 0
      listed[#listed + 1] = field
    else gone[#gone + 1] = field end
    if doc and doc.expires ~= "" then
      timed[#timed + 1] = doc.expires
      timed[#timed + 1] = field
    else free[#free + 1] = field end
  end
  many("HDEL", k.doc, gone)
  many("ZREM", k.docs, gone)
  many("HSET", k.doc, set)
  many("ZADD", k.docs, listed)
  many("ZREM", k.docttl, free)
  many("ZADD", k.docttl, timed)
  c.docsDirty = {}
end

local function writeIds(c)
  for id in pairs(c.idsDirty) do
    if c.ids[id] then push2(c, "newIds", id, c.ids[id]) else c.goneIds[#c.goneIds + 1] = id end
  end
  c.idsDirty = {}
end

-- A page is counted when its last seq was given: then all its jobs come at once, and those that have left before were counted below zero.
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
    elseif filled[page] then call("ZADD", c.k.pages, page, page) end
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

local function addRoute(k, name)
  local number = num(call("RPUSH", k.route, name))
  call("HSET", k.meta, name, number, "routes", number)
  return number
end

local function writeRoutes(c)
  for _, name in ipairs(c.newRoutes) do c.routes = tonumber(addRoute(c.k, name)) end
  c.newRoutes = nil
end

local function dropRecords(c)
  local k = c.k
  many("HDEL", k.spec, c.goneSpecs)
  many("HDEL", k.state, c.goneStates)
  many("HDEL", k.ids, c.goneIds)
  for i = 1, #c.trails, CHUNK do call("UNLINK", unpack(c.trails, i, min(i + CHUNK - 1, #c.trails))) end
  for key, list in pairs(c.zrem) do many("ZREM", key, list) end
  c.goneSpecs, c.goneStates, c.goneIds, c.trails, c.zrem = {}, {}, {}, {}, {}
end

local function writeRecords(c)
  local k = c.k
  if c.seq > c.life.seq then fillPages(c) end
  if c.jobs then
    writeJobs(c)
    writeIds(c)
    writeKeys(c)
    writeDocs(c)
    dropRecords(c)
  end
  if c.newRoutes then writeRoutes(c) end
  if c.ready then wake(c) end
  if c.specs then many("HSET", k.spec, c.specs) end
  if c.states then many("HSET", k.state, c.states) end
  if c.newIds then many("HSET", k.ids, c.newIds) end
  for key, list in pairs(c.zadd) do many("ZADD", key, list) end
  if c.ended then
    for key, handles in pairs(c.ended) do appendEnded(k, sub(key, 1, 1), sub(key, 2), handles) end
  end
  if c.pages then writePages(c) end
  for field, by in pairs(c.tally) do
    if by ~= 0 then call("HINCRBY", k.tally, field, by) end
  end
  c.specs, c.states, c.newIds, c.ended, c.zadd, c.tally = nil, nil, nil, nil, {}, {}
end

local function hintOf(c)
  local finished, cancels = "", {}
  for _, g in ipairs(c.order) do
    if g.n > 1 then
      if g.status ~= "" and isTerminal(g.status) then finished = (finished == "" and "" or finished .. US) .. concat(g, US, 2)
      elseif g.status == RUNNING and g.extra ~= "" then
        for i = 2, g.n do
          cancels[#cancels + 1] = g[i]
          cancels[#cancels + 1] = sub(g.extra, 2)
        end
      end
    end
  end
  return finished, concat(cancels, US)
end

-- The number is taken before the record is written: one that is lost is a gap, one that came twice would be refused for ever.
local function tellFeed(k, life, at, events)
  life.feed = life.feed + 1
  call("XADD", k.feed, num(life.feed) .. "-1", "a", at, "b", events, "s", num(life.seq))
end

local function writeFeed(c)
  local told = {}
  for _, g in ipairs(c.order) do
    if g.n > 1 then told[#told + 1] = concat(g, US) end
  end
  if #told > 0 then tellFeed(c.k, c.life, c.at, concat(told, RS)) end
end

-- Writes everything. Answers what the caller's own listeners are told: ready routes, the earliest clock set, finished ids, cancels.
local function finish(c)
  writeRecords(c)
  writeFeed(c)
  local routes = ""
  if c.ready then
    for route in pairs(c.ready) do routes = (routes == "" and "" or routes .. ",") .. route end
  end
  local due = c.due and num(c.due - c.now) or ""
  local finished, cancels = hintOf(c)
  local woken = c.woken and concat(c.woken, ",") or ""
  if woken ~= "" or due ~= "" or finished ~= "" or cancels ~= "" then
    call("PUBLISH", c.k.hint, concat({ concat({ c.sender, num(c.fence), woken, due }, US), finished, cancels }, RS))
  end
  return { routes, due, finished, cancels }
end
`;
