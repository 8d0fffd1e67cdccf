-- upkeep/unreadable
module(function()
local add2, contentOf, count, eachRoute, FREES = M.add2, M.contentOf, M.count, M.eachRoute, M.FREES
local journalKeys, leavePage, nextArg, nextNumber = M.journalKeys, M.leavePage, M.nextArg, M.nextNumber
local NONE, noteMove, READS, readSpec, returnPermits = M.NONE, M.noteMove, M.READS, M.readSpec, M.returnPermits
local seqOf, serve, setHead, tagsIn, widen = M.seqOf, M.serve, M.setHead, M.tagsIn, M.widen

local STATE_AND_ROUTE = "^" .. TAKE .. times(SKIP, 4) .. "([^\31]*)"
local ENDED, DOC, TEXT_MAX = { COMPLETED, FAILED, CANCELLED, EXPIRED, SKIPPED }, "doc:", 16000

local function keepUnreadable(c, ref, id, why, text)
  call("HSET", c.k.unreadable, ref, concat({ id, why, c.at, sub(text, 1, TEXT_MAX) }, US))
  c.kept = (c.kept or 0) + 1
end

-- The id of a job whose texts cannot be trusted: the one under which the ids have this handle; "" where none is found.
local function idOf(c, h, spec, state)
  local inSpec, inState = match(spec, "^[^\31]*\31([^\31]*)\31"), match(state, "^[^\31]*\31[^\31]*\31([^\31]*)\31")
  local found = { inSpec or "", inState or "" }
  for id, handle in pairs(c.ids) do
    if handle == h then found[#found + 1] = id end
  end
  for _, id in ipairs(found) do
    if call("HGET", c.k.ids, id) == h then return id end
  end
  return ""
end

local function placeIn(text)
  local state, route = match(text, STATE_AND_ROUTE)
  return state, route
end

-- Takes a handle out of the indexes of a route. Answers the state that they had it in.
local function leaveRoute(k, h, route)
  if call("ZREM", k.dueOf .. route, h) == 1 then
    setHead(k, route)
    return SCHEDULED
  end
  return call("ZREM", k.ready .. route, h) == 1 and READY or nil
end

-- Takes a handle out of all indexes. Answers route and state by which they had it; route: what its texts say, if known.
local function leaveIndexes(c, h, route)
  local k, state, met = c.k, nil, c.met
  if met and met.route then state = leaveRoute(k, h, met.route) or met.state end
  if state then
    route = met.route
  elseif route then
    state = leaveRoute(k, h, route)
  else
    for each in eachRoute(c) do
      state = leaveRoute(k, h, each)
      if state then
        route = each
        break
      end
    end
  end
  if call("ZREM", k.lease, h) == 1 then state = state or RUNNING end
  if call("ZREM", k.wake, h) == 1 then state = state or SUSPENDED end
  for _, ending in ipairs(ENDED) do
    if call("ZREM", k.bad .. ending, h) == 1 then state = state or ending end
  end
  call("ZREM", k.clock, h)
  call("ZREM", k.keep, h)
  call("ZREM", k.results, h)
  return route, state
end

-- What can be read of a spec is taken out of the lists of tags and keys.
local function leaveLists(c, h, job)
  local k = c.k
  for _, tag in ipairs(tagsIn(job.tags or "")) do
    call("ZREM", k.tag .. tag, h)
  end
  local key = job.uniqueKey or ""
  local holder = key ~= "" and call("HGET", k.uniq, key)
  if holder and match(holder, "^([^\31]*)\31[^\31]*\31\31") == h then
    call("HDEL", k.uniq, key)
    c.uniq[key] = nil
  end
end

-- What the call was to write of a record that is kept as unreadable: a state would come back without its spec.
local function dropState(c, h)
  local states = c.states or NONE
  local n = c.statesAt or #states
  for i = n - 1, 1, -2 do
    if states[i] == h then
      table.remove(states, i + 1)
      table.remove(states, i)
      n = n - 2
    end
  end
  if c.statesAt then c.statesAt = n end
  if c.done then c.done[h] = nil end
end

local function keepUnreadableJob(c, h, spec, state, why)
  widen(c)
  dropState(c, h)
  local k, job, text, isMoved = c.k, {}, spec or "", state and true
  state = state or ""
  local isRead = readSpec(job, text)
  local id, known, route = idOf(c, h, text, state), placeIn(state)
  if not (route and contentOf(c, route)) then route = job.route end
  if not (route and contentOf(c, route)) then route = nil end
  local own, by = leaveIndexes(c, h, route)
  if known and not match(known, "^%d$") then known = nil end
  if own then count(c, own, known or by or (isMoved and COMPLETED or READY), -1) end
  if own and by == RUNNING and c.life.gates then returnPermits(c, own) end
  if own and isRead and job.laneKey ~= "" then
    job.h, job.state, job.route, job.keepsLane = h, by, own, call("ZSCORE", k.keeping, h) and "1" or "0"
    noteMove(c, h, job, nil)
  end
  if seqOf(h) then leavePage(c, h) end
  leaveLists(c, h, job)
  call("HDEL", k.spec, h)
  call("HDEL", k.state, h)
  if id ~= "" then call("HDEL", k.ids, id) end
  call("UNLINK", k.log .. h, k.frames .. h, k.summary .. h, journalKeys(k, h))
  c.jobs[h], c.ids[id] = false, false
  keepUnreadable(c, h, id, why, text .. RS .. state)
end

local function meetUnreadable(c, h, spec, state, why)
  if c.unreadable then
    c.unreadable[#c.unreadable + 1] = h
  else
    keepUnreadableJob(c, h, spec, state, why)
  end
end

-- The id of an unreadable record, found later. Answers whether there is one.
local function nameUnreadable(c, h, id)
  local text = call("HGET", c.k.unreadable, h)
  if text and sub(text, 1, 1) == US then call("HSET", c.k.unreadable, h, id .. text) end
  return text and true
end

local function keepUnreadableDoc(c, field, text)
  local k = c.k
  call("HDEL", k.doc, field)
  call("ZREM", k.docs, field)
  call("ZREM", k.docttl, field)
  call("ZREM", k.docdue, field)
  keepUnreadable(c, DOC .. field, "", "the document cannot be read", text)
end

serve("read_unreadable", READS, function(c)
  local from, most, out, refs = nextArg(c), nextNumber(c), {}, call("HKEYS", c.k.unreadable)
  table.sort(refs)
  for _, ref in ipairs(refs) do
    if #out == most * 2 then break end
    if ref > from then add2(out, ref, call("HGET", c.k.unreadable, ref)) end
  end
  return out
end)

serve("delete_unreadable", FREES, function(c)
  local deleted = 0
  for i = c.i, #c.args do
    deleted = deleted + call("HDEL", c.k.unreadable, c.args[i])
  end
  return deleted
end)

M.keepUnreadable, M.meetUnreadable, M.nameUnreadable = keepUnreadable, meetUnreadable, nameUnreadable
M.keepUnreadableDoc = keepUnreadableDoc
end)
