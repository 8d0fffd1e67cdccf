/**
 * The audit of lanes (lanes.ts, parked.ts, key-gates.ts), as that of the other indexes (audit.ts). An entry of an index
 * that a claim meets and that is no lane's is taken out there.
 *
 *  audit_lines   rank, max     each entry of a line is a ready job of that lane, rank and route, or one that its lane
 *                              has shown with others that are left (lane-shown.ts)
 *  audit_lanes   cursor, max   each lane shows its first job, or the first of them, and stands where that says
 *  audit_uses                  what is held of the gates of keys is what runs, and what keeps its lane
 */

export const auditLanesLua = String.raw`
local LOOKED_AT_ONCE = 1000

-- Whether an entry is of a job that was taken while its lane shows others behind it. known: such entries, by lane.
local function isTakenOf(c, lane, entry, known)
  if not known[lane] then
    local text, taken = call("HGET", c.k.lane, lane) or "", {}
    local s = showsMore(text) and shownOf(c, lane, text)
    for i = 1, s and s.first and s.first - 1 or 0 do taken[s.entries[i]] = true end
    known[lane] = taken
  end
  return known[lane][entry]
end

serveAudit("lines", function(c)
  local rank, most, repaired, known = nextNumber(c), nextNumber(c), 0, {}
  local entries, handles = call("ZRANGE", c.k.line, rank, rank + most - 1), {}
  for i, entry in ipairs(entries) do handles[i] = match(entry, "\31[01]%d*(%l%d+)\31[^\31]*$") or "" end
  loadJobs(c, handles)
  for i, entry in ipairs(entries) do
    local job, lane = c.jobs[handles[i]], match(entry, "^[^\31]*")
    local isInLine = job and job.state == READY and job.laneKey ~= "" and entryOf(job) == entry
    if not isInLine and not isTakenOf(c, lane, entry, known) then
      noteGone(workOf(c), lane, handles[i], entry)
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

-- Whether a lane that shows several jobs shows those that its record says, where they should stand. s: as in shownOf.
local function areShown(c, lane, text, s)
  local laned, total = lanedOf(c, s.route), #s.entries
  if not s.first or s.looks == 0 or not laned or s.entries[total] ~= s.last then return false end
  loadJobs(c, s.handles)
  for i, entry in ipairs(s.entries) do
    local job, score = c.jobs[s.handles[i]], tonumber(s.scores[i] or "")
    local isReady = job and job.state == READY and job.laneKey == lane and entryOf(job) == entry
    if (i >= s.first) ~= (isReady or false) or (i >= s.first) ~= (score ~= nil) then return false end
    if score and not laned.byTurn and score ~= rankIn(s.places[i]) then return false end
    local behind = (total - i) * (tonumber(s.step) or 0)
    if score and laned.byTurn and score ~= tonumber(s.turn) - behind then return false end
  end
  if byte(text, -1) ~= ALONE_BYTE then return byte(text, -1) == US_BYTE end
  return #call("ZRANGE", c.k.line, "(" .. s.last, "(" .. lane .. BEHIND_US, "BYLEX", "LIMIT", "0", "1") == 0
end

-- Nothing of a lane stands among the open ones.
local function hideLane(c, record, step)
  local gone, handles = {}, { record.handle }
  for _, entry in ipairs(inLineOf(c, record.key, LOOKED_AT_ONCE)) do
    local _, h = inEntry(record.key, entry)
    handles[#handles + 1] = h
  end
  for _, h in ipairs(handles) do
    add2(gone, openEntry(record.key, h), midEntry(record.key, h, step))
  end
  for route in eachRoute(c) do
    if lanedOf(c, route) then many("ZREM", c.k.open .. route, gone) end
  end
end

-- Whether the record of a lane has its only job.
local function hasOnly(c, record)
  loadJobs(c, { record.handle })
  local job = c.jobs[record.handle]
  return job and job.state == READY and job.laneKey == record.key and isInRecord(c, job)
end

-- Whether a lane that shows one job shows its first, and stands where its record says.
local function isFirstShown(c, record, head)
  if record.alone ~= "" then return not head and hasOnly(c, record) and isPlaced(c, record) end
  local isSame = head and head.handle == record.handle and head.place == record.place and head.route == record.route
  if not isSame and (head or record.handle ~= "") then return false end
  return isPlaced(c, record)
end

-- The job in a record goes into its line, where it is ready.
local function unloadReady(c, record)
  loadJobs(c, { record.handle })
  local job = c.jobs[record.handle]
  if job and job.state == READY and job.laneKey == record.key then call("ZADD", c.k.line, "0", entryOf(job)) end
  record.alone = ""
end

local function repairLane(c, lane)
  local text = call("HGET", c.k.lane, lane) or ""
  local isMany = showsMore(text)
  local s = isMany and shownOf(c, lane, text)
  if s and areShown(c, lane, text, s) then return 0 end
  loadLanes(c, { lane })
  local record, work, head = c.lanes[lane], workOf(c), firstInLine(c, lane)
  if not isMany and find(text, LANE_PATTERN) and isFirstShown(c, record, head) then return 0 end
  if record.alone ~= "" then
    unloadReady(c, record)
    head = firstInLine(c, lane)
  end
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
  for _, key in ipairs(call("SMEMBERS", c.k.one)) do keys[#keys + 1] = key end
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
