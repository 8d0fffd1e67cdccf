/**
 * The candidates of a claim by lanes (claim-lanes.lua.ts): which lane is next, read in batches from the open lanes of
 * the offered routes, and what comes up on the way: the next job of a lane that was taken from, and lanes that waited.
 *
 *  candidate  the first job of a lane: handle, lane, route, position, place in its line; once it was read also its
 *             texts, step and uses, and the job itself where it is no first claim
 *  p          the state of one offer: its sources (open lanes of a route), others (a heap of candidates that came up),
 *             lines (of lanes that were taken from: what comes next)
 */
import { reads } from "../library/path-branches.ts";
import { lua, luaModule } from "../library/lua.ts";

export const laneCandidatesLua = luaModule({
  name: "groups/lane-candidates",
  takes: [
    "fetch inLine isLaneAhead jobFrom lineAfter lineEntry loadKeyGates loadLanes NONE noteLane num",
    "positionOf push readFirst usesIn widen workOf",
  ],
  gives: ["newCandidate addOther readCandidates nextCandidate leaveLine"],
  source: lua`
-- All fields at once (as in newRecord).
local function newCandidate(handle, lane, route, place, position)
  return {
    handle = handle,
    lane = lane,
    route = route,
    place = place,
    position = position,
    isRead = false,
    isStray = false,
    isRung = false,
    spec = false,
    id = false,
    flags = false,
    step = false,
    gates = "",
    uses = NONE,
    job = false,
  }
end

local function addOther(p, candidate)
  local heap = p.others
  local i = #heap + 1
  while i > 1 do
    local above = floor(i / 2)
    if not isLaneAhead(candidate, heap[above]) then break end
    heap[i] = heap[above]
    i = above
  end
  heap[i] = candidate
end

local function takeOther(p)
  local heap = p.others
  local n = #heap
  local first, last, i = heap[1], heap[n], 1
  heap[n] = nil
  n = n - 1
  while n > 0 do
    local below = i * 2
    if below > n then break end
    if below < n and isLaneAhead(heap[below + 1], heap[below]) then below = below + 1 end
    if not isLaneAhead(heap[below], last) then break end
    heap[i] = heap[below]
    i = below
  end
  if n > 0 then heap[i] = last end
  return first
end

-- What the texts of a candidate say. One that is not ready there is a stray.
local function readCandidate(c, each, spec, state)
  each.isRead, each.spec = true, spec
  local route = each.route
  ${reads("lease: set", "id, flags, lane, step, gates")}
  if id and lane == each.lane then
    each.id, each.flags, each.step, each.gates, each.uses = id, flags, tonumber(step), gates, usesIn(gates)
    return
  end
  widen(c)
  c.met = { route = each.route, state = READY }
  local job = jobFrom(c, each.handle, spec, state)
  c.met = nil
  if job and job.state == READY and job.route == each.route and job.laneKey == each.lane then
    each.job, each.step, each.uses = job, tonumber(job.laneStep), usesIn(job.laneGates)
  else
    each.isStray = true
  end
end

local function readCandidates(c, some)
  local handles, keys = {}, {}
  for i, each in ipairs(some) do
    handles[i] = each.handle
  end
  local specs, states = fetch("HMGET", c.k.spec, handles), fetch("HMGET", c.k.state, handles)
  local clocks = c.hasRung and fetch("ZMSCORE", c.k.clock, handles)
  for i, each in ipairs(some) do
    readCandidate(c, each, specs[i], states[i])
    each.isRung = clocks and clocks[i] and tonumber(clocks[i]) <= c.now
    for _, use in ipairs(each.uses or {}) do
      keys[#keys + 1] = use.key
    end
  end
  if #keys > 0 then loadKeyGates(c, keys) end
end

-- The next open lanes of a route. An entry that is none is taken out.
local function refill(c, p, source)
  local found, some, lanes = call("ZRANGE", source.key, source.at, source.at + p.batch - 1, "WITHSCORES"), {}, {}
  for i = 1, #found, 2 do
    local handle, lane = match(found[i], "^([^\31]*)\31(.*)$")
    lane = lane or ""
    some[#some + 1] = newCandidate(handle, lane, source.route, "", tonumber(found[i + 1]))
    lanes[#lanes + 1] = lane
  end
  loadLanes(c, lanes)
  source.at, source.isEmpty, source.list, source.i = source.at + #some, #some < p.batch, {}, 1
  for i, each in ipairs(some) do
    local was = c.lanes[each.lane].was
    if each.handle and was.handle == each.handle and was.route == source.route and was.waitsAt == "" then
      each.place = c.lanes[each.lane].place
      push(source, "list", each)
    else
      push(p.strays, source.key, found[i * 2 - 1])
    end
  end
  readCandidates(c, source.list)
end

-- The first of all candidates; nothing at the end.
local function nextCandidate(c, p)
  local first, at = p.others[1], nil
  for _, source in ipairs(p.sources) do
    while not p.closed[source.route] and not source.list[source.i] and not source.isEmpty do
      refill(c, p, source)
    end
    local each = not p.closed[source.route] and source.list[source.i]
    if each and (not first or isLaneAhead(each, first)) then
      first, at = each, source
    end
  end
  if at then
    at.i = at.i + 1
  elseif first then
    takeOther(p)
  end
  return first
end

local function candidateIn(lane, entry)
  local place, h, route = inLine(lane, entry)
  return newCandidate(h, lane, route, place, false)
end

-- What comes after a job in its line: the next one alone, then several at once.
local function nextOf(c, p, lane, entry)
  local line = p.lines[lane]
  if not line then
    p.lines[lane] = true
    local found = lineAfter(c, lane, entry, "1")[1]
    return found and candidateIn(lane, found)
  end
  if line == true then
    line = { list = NONE, i = 0, size = 4, isEmpty = false }
    p.lines[lane] = line
  end
  line.i = line.i + 1
  if not line.list[line.i] and not line.isEmpty then
    local found = lineAfter(c, lane, entry, num(line.size))
    line.list, line.i, line.isEmpty, line.size = {}, 1, #found < line.size, min(line.size * 4, p.wanted)
    for i, each in ipairs(found) do
      line.list[i] = candidateIn(lane, each)
    end
    readCandidates(c, line.list)
  end
  return line.list[line.i]
end

-- The job leaves its line, and the next one is the first of the lane.
local function leaveLine(c, p, candidate)
  local work, record, lane = workOf(c), c.lanes[candidate.lane], candidate.lane
  noteLane(work, lane).isTaken = true
  local entry = lineEntry(lane, candidate.place, candidate.handle, candidate.route)
  work.gone[#work.gone + 1] = entry
  local head = nextOf(c, p, lane, entry)
  work.heads[lane] = head or false
  record.waitsAt, record.isTouched = "", true
  if not head then return end
  record.handle, record.place, record.route = head.handle, head.place, head.route
  head.position = positionOf(c, record)
  if p.routes[head.route] then addOther(p, head) end
end
`,
});
