-- upkeep/audit-lanes
module(function()
local auditHash, closedFor, eachRoute, entryOf = M.auditHash, M.closedFor, M.eachRoute, M.entryOf
local firstInLine, gatesOf, inLine, keyGateOf = M.firstInLine, M.gatesOf, M.inLine, M.keyGateOf
local LANE_PATTERN, lanedOf, leavePlace, lineAfter = M.LANE_PATTERN, M.lanedOf, M.leavePlace, M.lineAfter
local loadJobs, loadLanes, many, newPlaces, nextNumber = M.loadJobs, M.loadLanes, M.many, M.newPlaces, M.nextNumber
local noteGone, noteHeld, noteLane, num, openEntry = M.noteGone, M.noteHeld, M.noteLane, M.num, M.openEntry
local serveAudit, tagsIn, usesIn, waitEntryOf, workOf = M.serveAudit, M.tagsIn, M.usesIn, M.waitEntryOf, M.workOf
local writeKeyGates, writePlaces = M.writeKeyGates, M.writePlaces

local LOOKED_AT_ONCE = 1000

serveAudit("audit_lines", function(c)
  local rank, most, repaired = nextNumber(c), nextNumber(c), 0
  local entries, handles = call("ZRANGE", c.k.line, rank, rank + most - 1), {}
  for i, entry in ipairs(entries) do
    handles[i] = match(entry, "\31[01]%d*(%l%d+)\31[^\31]*$") or ""
  end
  loadJobs(c, handles)
  for i, entry in ipairs(entries) do
    local job, lane = c.jobs[handles[i]], match(entry, "^[^\31]*")
    local isInLine = job and job.state == READY and job.laneKey ~= "" and entryOf(job) == entry
    if not isInLine then
      noteGone(workOf(c), lane, handles[i], entry, job and job.laneGates or "")
      repaired = repaired + 1
    end
  end
  return #entries, repaired, #entries == most and num(rank + most - repaired) or ""
end)

-- Whether the indexes have a lane where its record says.
local function isPlaced(c, record)
  local was = record.was
  if was.handle == "" then return true end
  if was.waitsAt == "" then
    local score = call("ZSCORE", c.k.open .. was.route, openEntry(record.key, was.handle))
    return score and tonumber(score) == was.position
  end
  for _, gate in ipairs(tagsIn(was.waitsAt)) do
    if not call("ZSCORE", c.k.waits, waitEntryOf(gate, record)) then return false end
  end
  return true
end

-- Nothing of a lane stands among the open ones.
local function hideLane(c, record)
  local gone = { openEntry(record.key, record.handle) }
  for i, entry in ipairs(lineAfter(c, record.key, nil, num(LOOKED_AT_ONCE))) do
    local _, h = inLine(record.key, entry)
    gone[i + 1] = openEntry(record.key, h)
  end
  for route in eachRoute(c) do
    if lanedOf(c, route) then many("ZREM", c.k.open .. route, gone) end
  end
end

-- Whether a lane has its first job, and stands where its record says.
local function isLaneRight(c, record, head)
  if not head then return record.handle == "" end
  return head.handle == record.handle
    and head.place == record.place
    and head.route == record.route
    and isPlaced(c, record)
end

-- A lane that waits and is not refused by itself waits for another one, which a hand may have taken away.
local function releaseBehind(c, record)
  if record.waitsAt == "" or closedFor(c, usesIn(gatesOf(c, record.handle)))[1] then return end
  for _, gate in ipairs(tagsIn(record.waitsAt)) do
    workOf(c).releases[gate .. US .. record.route] = true
  end
end

local function repairLane(c, lane, text)
  loadLanes(c, { lane })
  local record, work, head = c.lanes[lane], workOf(c), firstInLine(c, lane)
  if find(text, LANE_PATTERN) and isLaneRight(c, record, head) then
    releaseBehind(c, record)
    return 0
  end
  noteLane(work, lane)
  work.heads[lane] = head or false
  hideLane(c, record)
  -- Whatever the indexes have of it, it takes its place anew.
  local places = newPlaces()
  leavePlace(c, record, places)
  writePlaces(places)
  record.was.handle, record.isTouched = "", true
  return 1
end

serveAudit("audit_lanes", function(c)
  return auditHash(c, c.k.lane, function(lane, text) return repairLane(c, lane, text) end)
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

serveAudit("audit_uses", function(c)
  local keys, counted, repaired = call("HKEYS", c.k.use), { held = {} }, 0
  for _, key in ipairs(call("SMEMBERS", c.k.one)) do
    keys[#keys + 1] = key
  end
  if #keys <= 2 and not hasLanes(c) then return 0, 0, "" end
  local checked = countHeld(c, c.k.lease, counted) + countHeld(c, c.k.keeping, counted)
  for _, key in ipairs(keys) do
    if key ~= LONG_ENTRY then counted.held[key] = counted.held[key] or 0 end
  end
  for key, held in pairs(counted.held) do
    local g = keyGateOf(c, key)
    if g.held ~= held then
      repaired, g.held = repaired + 1, held
      workOf(c).releases[key] = true
    end
  end
  -- What says nothing any more goes without being a repair.
  writeKeyGates(c)
  return checked, repaired, ""
end)

end)
