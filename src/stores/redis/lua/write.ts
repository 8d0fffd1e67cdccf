/**
 * The end of a call: all it changed is written, by commands over many values, then one record goes to the feed and one hint to those who listen
 * (R10). Nothing here can be refused.
 *
 *  hint   sender US routes that became ready, by comma US earliest clock set, relative US RS finished id US id .. RS id US owner US ..
 */
export const writeLua = String.raw`
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
  count(c, was.route, was.status, -1)
  countPage(c, job.h, -1)
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

local function setDue(c, at)
  local n = tonumber(at)
  if not c.due or n < c.due then c.due = n end
end

local function writeJob(c, job)
  local k, was = c.k, job.was
  local key, score, clock = placeOf(k, job)
  if not was or job.isRewritten then
    tailOf(job)
    c.specs[#c.specs + 1] = job.h
    c.specs[#c.specs + 1] = specOf(job)
  end
  if was or job.rev > 1 then
    c.states[#c.states + 1] = job.h
    c.states[#c.states + 1] = stateOf(job)
  end
  writeTags(c, job, was)
  if was then
    if was.key and was.key ~= key then push(c.zrem, was.key, job.h) end
    if was.clock and clock == "" then push(c.zrem, k.clock, job.h) end
    if was.keep and job.keep == "" then push(c.zrem, k.keep, job.h) end
    count(c, was.route, was.status, -1)
  else
    countPage(c, job.h, 1)
  end
  count(c, job.route, job.status, 1)
  if key then
    push2(c.zadd, key, score, job.h)
    if job.status == READY and (not was or was.key ~= key) then c.ready[job.route] = true end
    if job.status == SCHEDULED or (job.status == RUNNING and was and was.status == RUNNING) then setDue(c, score) end
  elseif not was or was.status ~= job.status or was.ended ~= job.ended then
    if job.keep ~= "" then push2(c.zadd, k.keep, job.keep, job.h)
    else
      local minute = num(floor(job.ended / MINUTE))
      push(c.rpush, k.ended .. job.status .. ":" .. minute, job.h)
      push2(c.zadd, k.ends .. job.status, minute, minute)
    end
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
    if c.ids[id] then
      c.newIds[#c.newIds + 1] = id
      c.newIds[#c.newIds + 1] = c.ids[id]
    else c.goneIds[#c.goneIds + 1] = id end
  end
  c.idsDirty = {}
  many("HDEL", c.k.ids, c.goneIds)
  many("HSET", c.k.ids, c.newIds)
  c.goneIds, c.newIds = {}, {}
end

local function writePages(c)
  for page, by in pairs(c.pages) do
    if by ~= 0 then
      local left = call("HINCRBY", c.k.page, page, by)
      if left == 0 then
        call("HDEL", c.k.page, page)
        call("ZREM", c.k.pages, page)
      elseif left == by then call("ZADD", c.k.pages, page, page) end
    end
  end
  c.pages = {}
end

-- Routes whose ready jobs were none before are worth a hint to everybody.
local function writeReady(c)
  local woken = {}
  for route in pairs(c.ready) do
    local key = c.k.ready .. route
    -- Jobs that wait there but cannot be claimed must not keep the hint back.
    if c.zadd[key] and (call("EXISTS", key) == 0 or hasRung(c)) then woken[#woken + 1] = route end
  end
  return woken
end

local function writeRecords(c)
  local k = c.k
  writeJobs(c)
  if #c.newRoutes > 0 then
    for _, name in ipairs(c.newRoutes) do call("HSET", k.routes, name, call("RPUSH", k.route, name)) end
    c.newRoutes = {}
  end
  for _, route in ipairs(writeReady(c)) do push(c, "woken", route) end
  many("HDEL", k.spec, c.goneSpecs)
  many("HDEL", k.state, c.goneStates)
  many("HSET", k.spec, c.specs)
  many("HSET", k.state, c.states)
  for key, list in pairs(c.zrem) do many("ZREM", key, list) end
  for key, list in pairs(c.zadd) do many("ZADD", key, list) end
  for key, list in pairs(c.rpush) do many("RPUSH", key, list) end
  for i = 1, #c.trails, CHUNK do call("UNLINK", unpack(c.trails, i, min(i + CHUNK - 1, #c.trails))) end
  writeIds(c)
  writeKeys(c)
  writeDocs(c)
  writePages(c)
  for field, by in pairs(c.tally) do
    if by ~= 0 then call("HINCRBY", k.tally, field, by) end
  end
  c.goneSpecs, c.goneStates, c.specs, c.states, c.zrem, c.zadd, c.rpush, c.trails, c.tally = {}, {}, {}, {}, {}, {}, {}, {}, {}
end

local function hintOf(c)
  local finished, cancels = {}, {}
  for _, g in ipairs(c.order) do
    if #g > 1 then
      if g.status ~= "" and isTerminal(g.status) then finished[#finished + 1] = concat(g, US, 2)
      elseif g.status == RUNNING and g.extra ~= "" then
        for i = 2, #g do
          cancels[#cancels + 1] = g[i]
          cancels[#cancels + 1] = sub(g.extra, 2)
        end
      end
    end
  end
  return concat(finished, US), concat(cancels, US)
end

-- Writes everything. Answers what the caller's own listeners are told: ready routes, the earliest clock set, finished ids, cancels.
local function finish(c)
  local k = c.k
  writeRecords(c)
  local told = {}
  for _, g in ipairs(c.order) do
    if #g > 1 then told[#told + 1] = concat(g, US) end
  end
  if #told > 0 then
    c.feed = c.feed + 1
    call("XADD", k.feed, num(c.feed) .. "-1", "a", c.at, "b", concat(told, RS))
    call("HSET", k.meta, "feed", num(c.feed), "seq", num(c.seq))
  end
  local routes = {}
  for route in pairs(c.ready) do routes[#routes + 1] = route end
  local due = c.due and num(c.due - c.now) or ""
  local finished, cancels = hintOf(c)
  local woken = c.woken and concat(c.woken, ",") or ""
  if woken ~= "" or due ~= "" or finished ~= "" or cancels ~= "" then
    call("PUBLISH", k.hint, concat({ concat({ c.sender, woken, due }, US), finished, cancels }, RS))
  end
  return { concat(routes, ","), due, finished, cancels }
end
`;
