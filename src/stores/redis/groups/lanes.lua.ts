/**
 * Lanes (R6, docs/decisions/0023): the ready jobs of each in their order, its first job, and where the lane stands. All
 * of it follows from the jobs. What a call does to jobs with lanes is noted (noteMove) and written once per lane
 * (writeLanes in waiting-lanes.lua.ts). The set paths of submit and claim write what they do to lanes by themselves.
 *
 *  line     zset  lane US place of its rank, handle US route: ready jobs with a lane, in byte order
 *  lane     hash  lane -> its first job and turn (argument-text.ts), and the gates at which it waits; an empty lane
 *                 ahead of its queue keeps its turn
 *  open:r   zset  handle US lane by rank or turn: lanes whose first job is of route r, where a claim finds them
 *  waits    zset  gate US route US place, handle US lane, in byte order: lanes that wait at the gate of a key
 *  top      hash  queue -> the highest turn claimed there
 *  idle:q   zset  empty lanes of queue q by their turns
 *  keeping  zset  jobs that do not run and hold their gates, by seq: they wait for their retry, or have failed
 */
import { lua, luaModule } from "../library/lua.ts";

export const lanesLua = luaModule({
  name: "groups/lanes",
  takes: [
    "add2 contentOf fetch inLine LANE_PATTERN lineAfter lineEntry many num openEntry placeText push",
    "push2 rankIn readSpec scoreIn seqOf tagsIn usesIn",
  ],
  gives: [
    "entryOf workOf noteLane isLaneAhead joinTurn takeTurn forgottenTurn noteGone noteCome",
    "noteHeld noteMove lanedOf topOf positionOf loadLanes waitEntry waitEntryOf newPlaces",
    "writePlaces leavePlace noteOpen takePlace firstInLine headAfter gatesOf setFirst",
    "writeRecordsOfLanes",
  ],
  source: lua`
-- Of a job with a lane.
local function entryOf(job) return lineEntry(job.laneKey, placeText(tonumber(job.rank)), job.h, job.route) end

-- What the call does to lanes. moved: by lane; releases: gates, or gate US route, at which lanes may go on; heads: by
-- lane its first job, as far as that is known, or false.
local function workOf(c)
  local work = c.laneWork
  if not work then
    work =
      { come = {}, gone = {}, lanes = {}, moved = {}, held = {}, keeping = {}, kept = {}, heads = {}, releases = {} }
    c.laneWork = work
  end
  return work
end

-- The lane has to be looked at when the call is written. Answers what is noted of it.
local function noteLane(work, lane)
  local moved = work.moved[lane]
  if not moved then
    moved = {}
    work.moved[lane] = moved
    work.lanes[#work.lanes + 1] = lane
  end
  return moved
end

-- isAhead, isLaneAhead, joinTurn, takeTurn, forgottenTurn: store/rules/gates/lanes.ts has these by the same names, and
-- positionOf below.
local function isAhead(a, b)
  if a.place ~= b.place then return a.place < b.place end
  return a.handle < b.handle
end

local function isLaneAhead(a, b)
  if a.position ~= b.position then return a.position < b.position end
  return a.handle < b.handle
end

local function joinTurn(top) return top end

-- Answers the top of the queue from then on, and the turn of the lane.
local function takeTurn(turn, top, step)
  local taken = max(turn, top)
  return taken, taken + step
end

local function forgottenTurn(top) return top end

-- A job leaves the line of a lane. gates: those of its keys.
local function noteGone(work, lane, h, entry, gates)
  work.gone[#work.gone + 1] = entry
  local moved = noteLane(work, lane)
  moved.gone = moved.gone or {}
  moved.gone[h] = gates
end

-- A new first job of a lane, as far as the call knows.
local function noteCome(work, lane, entry)
  add2(work.come, "0", lineEntry(lane, entry.place, entry.handle, entry.route))
  local moved = noteLane(work, lane)
  if not moved.best or isAhead(entry, moved.best) then moved.best = entry end
end

-- A job with a lane holds all its gates while it runs, and those with a cap of its own while it keeps its lane.
local function noteHeld(work, job, by)
  local isAll = job.state == RUNNING
  if not isAll and job.keepsLane ~= "1" then return end
  for _, use in ipairs(usesIn(job.laneGates)) do
    if isAll or use.cap then work.held[use.key] = (work.held[use.key] or 0) + by * use.weight end
  end
end

-- A job before and after a change, as far as its lane is concerned; nothing for not there.
local function noteMove(c, h, was, job)
  local work = workOf(c)
  local from = was and was.state == READY and was.laneKey ~= "" and entryOf(was)
  local to = job and job.state == READY and job.laneKey ~= "" and entryOf(job)
  if from ~= to then
    if from then noteGone(work, was.laneKey, h, from, was.laneGates) end
    if to then
      local place = placeText(tonumber(job.rank))
      noteCome(work, job.laneKey, { handle = h, place = place, route = job.route, gates = job.laneGates })
    end
  end
  if was then noteHeld(work, was, -1) end
  if job then noteHeld(work, job, 1) end
  if job and job.keepsLane == "1" then
    add2(work.keeping, seqOf(h), h)
  elseif was and was.keepsLane == "1" then
    work.kept[#work.kept + 1] = h
  end
  if was and was.state == RUNNING and was.laneGates ~= "" then noteLane(work, was.laneKey).isFreed = true end
end

-- Of a route whose jobs have lanes: whether they take turns, and in which queue; false of any other.
local function lanedOf(c, route)
  local laned = c.life.laned[route]
  if laned == nil then
    local content = contentOf(c, route)
    if not content then return false end
    local queue, order = match(content, "^([^\31]*)\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$")
    laned = queue and { queue = queue, byTurn = order == "turn" } or false
    c.life.laned[route] = laned
  end
  return laned
end

local function topOf(c, queue)
  c.tops = c.tops or {}
  if not c.tops[queue] then c.tops[queue] = tonumber(call("HGET", c.k.top, queue) or 0) end
  return c.tops[queue]
end

-- Where a lane stands among the others.
local function positionOf(c, record)
  local laned = lanedOf(c, record.route)
  return laned and laned.byTurn and record.turn or rankIn(record.place)
end

-- What the store has of the lane's place, beside what it becomes.
local function rememberPlace(c, record)
  local was = record.was
  was.handle, was.route, was.waitsAt = record.handle, record.route, record.waitsAt
  was.position = record.handle ~= "" and positionOf(c, record) or nil
end

-- All fields at once: a table that grows field by field costs several times as much.
local function newRecord(lane, text)
  local handle, place, route, turn, waitsAt = match(text, LANE_PATTERN)
  return {
    handle = handle or "",
    place = place or "",
    route = route or "",
    turn = tonumber(turn),
    waitsAt = waitsAt or "",
    text = text,
    key = lane,
    isTouched = false,
    was = { handle = "", route = "", waitsAt = "", position = false },
  }
end

-- Brings the records of these lanes into the call's view, c.lanes.
local function loadLanes(c, lanes)
  local view, wanted = c.lanes or {}, {}
  c.lanes = view
  for _, lane in ipairs(lanes) do
    if not view[lane] then
      wanted[#wanted + 1] = lane
      view[lane] = true
    end
  end
  local texts = fetch("HMGET", c.k.lane, wanted)
  for i, lane in ipairs(wanted) do
    local record = newRecord(lane, texts[i] or "")
    rememberPlace(c, record)
    view[lane] = record
  end
end

local function waitEntry(gate, route, place, handle, lane) return concat({ gate, route, place .. handle, lane }, US) end

-- As the store has it.
local function waitEntryOf(gate, record)
  local was = record.was
  return waitEntry(gate, was.route, placeText(was.position), was.handle, record.key)
end

-- Adds and takes out entries of sorted sets, by their keys, all at once.
local function newPlaces() return { gone = {}, come = {} } end

local function writePlaces(places)
  for key, list in pairs(places.gone) do
    many("ZREM", key, list)
  end
  for key, list in pairs(places.come) do
    many("ZADD", key, list)
  end
end

local function leavePlace(c, record, places)
  local was = record.was
  if was.handle == "" then return end
  if was.waitsAt == "" then push(places.gone, c.k.open .. was.route, openEntry(record.key, was.handle)) end
  for _, gate in ipairs(tagsIn(was.waitsAt)) do
    push(places.gone, c.k.waits, waitEntryOf(gate, record))
  end
end

-- A lane of this route may be claimed from.
local function noteOpen(c, route) push(c, "openRoutes", route) end

-- The lane stands where its record says: among the open ones of its route, or at gates.
local function takePlace(c, record, places)
  local was, position = record.was, record.handle ~= "" and positionOf(c, record) or nil
  local isSame = was.handle == record.handle and was.route == record.route and was.waitsAt == record.waitsAt
  if isSame and was.position == position then return end
  leavePlace(c, record, places)
  rememberPlace(c, record)
  if record.handle == "" then return end
  if record.waitsAt == "" then
    local score = position == record.turn and num(position) or scoreIn(record.place)
    push2(places.come, c.k.open .. record.route, score, openEntry(record.key, record.handle))
    noteOpen(c, record.route)
  end
  for _, gate in ipairs(tagsIn(record.waitsAt)) do
    push2(places.come, c.k.waits, "0", waitEntryOf(gate, record))
  end
end

local function firstInLine(c, lane)
  local entry = lineAfter(c, lane, nil, "1")[1]
  if not entry then return nil end
  local place, h, route = inLine(lane, entry)
  return { place = place, handle = h, route = route }
end

-- The first job of a lane after what was noted. Read only if the one that was there is gone.
local function headAfter(c, work, record, moved)
  if work.heads[record.key] ~= nil then return work.heads[record.key] or nil end
  local best = moved.best
  if record.handle == "" then return best and not moved.gone and best or firstInLine(c, record.key) end
  if moved.gone and moved.gone[record.handle] then return firstInLine(c, record.key) end
  return best and isAhead(best, record) and best or record
end

-- An empty lane keeps its turn until the others have reached it.
local function emptyLane(c, record, laned, places)
  record.handle, record.place, record.route = "", "", ""
  if not record.turn then return end
  if not laned then
    record.turn = nil
    return
  end
  push2(places.come, c.k.idle .. laned.queue, num(record.turn), record.key)
end

-- The gates of the keys of a job; "" if it cannot be read.
local function gatesOf(c, h)
  local spec, job = call("HGET", c.k.spec, h), {}
  return spec and readSpec(job, spec) and job.laneGates or ""
end

-- The first job of a lane is another one: lanes that waited after it at its gates may go on.
local function releaseAfter(c, work, record, moved)
  if record.handle == "" or moved.isTaken or call("EXISTS", c.k.waits) == 0 then return end
  local gates = moved.gone and moved.gone[record.handle] or gatesOf(c, record.handle)
  for _, use in ipairs(usesIn(gates)) do
    work.releases[use.key .. US .. record.route] = true
  end
end

-- A lane gets its first job. If that is another one than before, the lane is open.
local function setFirst(c, work, record, head, places)
  local moved = work.moved[record.key]
  record.isTouched = true
  if not head and record.handle == "" then return end
  local laned = lanedOf(c, (head or record).route)
  if head and laned and laned.byTurn then
    if record.turn and record.handle == "" then push(places.gone, c.k.idle .. laned.queue, record.key) end
    record.turn = record.turn or joinTurn(topOf(c, laned.queue))
  end
  if head and head.handle == record.handle and head.route == record.route and head.place == record.place then return end
  releaseAfter(c, work, record, moved)
  record.waitsAt = ""
  if head then
    record.handle, record.place, record.route = head.handle, head.place, head.route
  else
    emptyLane(c, record, laned, places)
  end
end

local function laneText(record)
  if record.handle == "" and not record.turn then return "" end
  local turn = record.turn and num(record.turn) or ""
  return concat({ record.handle, record.place, record.route, turn, record.waitsAt }, US)
end

local function writeRecordsOfLanes(c)
  local set, gone = {}, {}
  for lane, record in pairs(c.lanes) do
    local text = record.isTouched and laneText(record) or record.text
    record.isTouched = false
    if text ~= record.text then
      if text == "" then
        gone[#gone + 1] = lane
      else
        add2(set, lane, text)
      end
      record.text = text
    end
  end
  many("HDEL", c.k.lane, gone)
  many("HSET", c.k.lane, set)
end
`,
});
