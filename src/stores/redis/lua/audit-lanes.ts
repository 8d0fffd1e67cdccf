/**
 * The audit of lanes (lanes.ts, parked.ts, key-gates.ts), as that of the other indexes (audit.ts). An entry of an index
 * that a claim meets and that is no lane's is taken out there.
 *
 *  audit_lines   rank, max     each entry of a line is a ready job of that lane, rank and route
 *  audit_lanes   cursor, max   each lane shows its first jobs, has ready jobs ahead of its line in its record, and
 *                              stands where that says
 *  audit_uses                  what is held of the gates of keys is what runs, and what keeps its lane
 */

export const auditLanesLua = String.raw`
local LOOKED_AT_ONCE = 1000

serveAudit("lines", function(c)
  local rank, most, repaired = nextNumber(c), nextNumber(c), 0
  local entries, handles = call("ZRANGE", c.k.line, rank, rank + most - 1), {}
  for i, entry in ipairs(entries) do handles[i] = match(entry, "\31[01]%d*(%l%d+)\31[^\31]*$") or "" end
  loadJobs(c, handles)
  for i, entry in ipairs(entries) do
    local job = c.jobs[handles[i]]
    local isInLine = job and job.state == READY and job.laneKey ~= ""
    if not isInLine or entryOf(job) ~= entry then
      noteGone(workOf(c), match(entry, "^[^\31]*"), handles[i], entry)
      repaired = repaired + 1
    end
  end
  return #entries, repaired, #entries == most and num(rank + most - repaired) or ""
end)

-- Whether the indexes have a lane where its record says.
local function isPlaced(c, record)
  local was = record.was
  if was.handle == "" then return true end
  if was.parked == "" then
    local score = call("ZSCORE", c.k.open .. was.route, openEntry(record.key, was.handle))
    return score and tonumber(score) == was.position
  end
  for _, gate in ipairs(tagsIn(was.parked)) do
    if not call("ZSCORE", c.k.parked, parkedEntry(gate, record)) then return false end
  end
  return true
end

-- Whether what a lane shows stands among the open ones where it should. s: of a record that shows several (shownIn); first:
-- from which on they are left.
local function areShown(c, s, first)
  local laned = lanedOf(c, s.route)
  for i = first, s.shown do
    local score, before = tonumber(s.scores[i] or ""), i > first and tonumber(s.scores[i - 1])
    if not score or not laned then return false end
    if not laned.byTurn and score ~= rankIn(s.places[i]) then return false end
    if laned.byTurn and before and score ~= before + (tonumber(s.step) or 0) then return false end
  end
  return true
end

-- Whether the jobs that the record of a lane has are ready there, in order, and ahead of its line.
local function areAhead(c, lane, route, places, handles, first, isAlone)
  local last, line = "", firstInLine(c, lane)
  loadJobs(c, handles)
  for i = first, #handles do
    local job, order = c.jobs[handles[i]], places[i] .. handles[i]
    local isThere = job and job.state == READY and job.laneKey == lane
    if not isThere or order <= last or entryOf(job) ~= lineEntry(lane, places[i], handles[i], route) then return false end
    last = order
  end
  return not line or not isAlone and last < line.place .. line.handle
end

-- Whether a record that has jobs of its lane is right.
local function isRecordRight(c, lane, text)
  local record, s, first = newRecord(lane, text), showsMore(text) and shownIn(c, lane, text), 1
  if s then
    while first < s.shown and not s.scores[first] do first = first + 1 end
    if not areShown(c, s, first) then return false end
    return areAhead(c, lane, s.route, s.places, s.handles, first, byte(text, -1) == ALONE_BYTE)
  end
  rememberPlace(c, record)
  local places, handles = knownIn(record.behind)
  table.insert(places, 1, record.place)
  table.insert(handles, 1, record.handle)
  local isAlone = byte(text, -1) == ALONE_BYTE
  return areAhead(c, lane, record.route, places, handles, 1, isAlone) and isPlaced(c, record)
end

-- The jobs that the record of a lane has go into its line, where they are ready.
local function unloadReady(c, record)
  local entries, places, handles = {}, knownIn(record.behind)
  handles[#handles + 1] = record.handle
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job = c.jobs[h]
    if job and job.state == READY and job.laneKey == record.key then add2(entries, "0", entryOf(job)) end
  end
  many("ZADD", c.k.line, entries)
  record.behind = ""
end

-- Nothing of a lane stands among the open ones.
local function hideLane(c, record, step)
  local gone, _, handles = {}, knownIn(record.behind)
  handles[#handles + 1] = record.handle
  for _, entry in ipairs(inLineOf(c, record.key, LOOKED_AT_ONCE)) do
    handles[#handles + 1] = match(entry, "^%d*(%l%d+)\31", #record.key + 2)
  end
  for _, h in ipairs(handles) do
    add2(gone, openEntry(record.key, h), midEntry(record.key, h, step))
  end
  for route in eachRoute(c) do
    if lanedOf(c, route) then many("ZREM", c.k.open .. route, gone) end
  end
end

local function repairLane(c, lane)
  local text = call("HGET", c.k.lane, lane) or ""
  local mark = byte(text, -1)
  if (mark == ALONE_BYTE or mark == MORE_BYTE) and isRecordRight(c, lane, text) then return 0 end
  loadLanes(c, { lane })
  local record, work = c.lanes[lane], workOf(c)
  if record.behind ~= "" then unloadReady(c, record) end
  local head = firstInLine(c, lane)
  local isSame = head and head.handle == record.handle and head.place == record.place and head.route == record.route
  local isShown = isSame or not head and record.handle == ""
  if mark == US_BYTE and isShown and isPlaced(c, record) then return 0 end
  noteLane(work, lane)
  work.heads[lane] = head or false
  hideLane(c, record, match(text, "^[^\31]*\31([^\31]*)") or "")
  -- Whatever the indexes have of it, it takes its place anew.
  local places = newPlaces()
  leavePlace(c, record, places)
  writePlaces(places)
  record.was.handle, record.isTouched = "", true
  return 1
end

serveAudit("lanes", function(c)
  return auditHash(c, c.k.lane, function(lane) return repairLane(c, lane) end)
end)

local function hasLanes(c)
  for route in eachRoute(c) do
    if lanedOf(c, route) then return true end
  end
  return false
end

-- Adds what the jobs of an index hold.
local function countHeld(c, key, counted)
  local rank = 0
  while true do
    local handles = call("ZRANGE", key, rank, rank + LOOKED_AT_ONCE - 1)
    loadJobs(c, handles)
    for _, h in ipairs(handles) do
      local job = c.jobs[h]
      if job and job.laneKey ~= "" then noteHeld(counted, job, 1) end
    end
    rank = rank + #handles
    c.jobs = {}
    if #handles < LOOKED_AT_ONCE then return rank end
  end
end

serveAudit("uses", function(c)
  local keys, counted, repaired = call("HKEYS", c.k.use), { held = {} }, 0
  for _, key in ipairs(call("HKEYS", c.k.one)) do keys[#keys + 1] = key end
  if #keys <= 2 and not hasLanes(c) then return 0, 0, "" end
  local checked = countHeld(c, c.k.lease, counted) + countHeld(c, c.k.keeping, counted)
  for _, key in ipairs(keys) do
    if key ~= LONG_ENTRY then counted.held[key] = counted.held[key] or 0 end
  end
  for key, held in pairs(counted.held) do
    local g = keyGateOf(c, key)
    if g.held ~= held then
      repaired, g.held = repaired + 1, held
      workOf(c).wakes[key] = true
    end
  end
  -- What says nothing any more goes without being a repair.
  writeKeyGates(c)
  return checked, repaired, ""
end)
`;
