/**
 * The audit of lanes (lanes.ts, parked.ts, key-gates.ts), as that of the other indexes (audit.ts). An entry of an index
 * that a claim meets and that is no lane's is taken out there.
 *
 *  audit_lines   rank, max     each entry of a line is a ready job of that lane, rank and route
 *  audit_lanes   cursor, max   each lane shows the first of its line, knows what stands behind it where it says so, and
 *                              stands where its record says
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

-- Whether what the record of a lane says of its line behind the first job is so.
local function knowsLine(c, record)
  if record.behind == "" then return true end
  local entry, stop = lineEntry(record.key, record.place, record.handle, record.route), "(" .. record.key .. BEHIND_US
  local entries = call("ZRANGE", c.k.line, "(" .. entry, stop, "BYLEX", "LIMIT", "0", num(KNOWN_MAX + 1))
  return find(knownOf(record.key, record.route, entries), record.behind, 1, true) == 1
end

local function repairLane(c, lane)
  loadLanes(c, { lane })
  local record, head, work = c.lanes[lane], firstInLine(c, lane), workOf(c)
  local isSame = head and head.handle == record.handle and head.place == record.place and head.route == record.route
  local isShown = isSame and knowsLine(c, record) or not head and record.handle == ""
  if isShown and isPlaced(c, record) then return 0 end
  noteLane(work, lane)
  work.heads[lane] = head or false
  -- Whatever the indexes have of it, it takes its place anew.
  local places = newPlaces()
  leavePlace(c, record, places)
  writePlaces(places)
  record.was.handle = ""
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
  if #keys <= 1 and not hasLanes(c) then return 0, 0, "" end
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
