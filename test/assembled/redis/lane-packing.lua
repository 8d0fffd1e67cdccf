-- groups/lane-packing
module(function()
local inputAt = M.inputAt

local FIRST = "^([ktag]+)\31" .. TAKE .. "%d+\31" .. TAKE .. "\31%-?%d*\31\31\31"
  .. SKIP .. TAKE .. "\31" .. SKIP .. TAKE .. "(%d*)\31" .. TAKE
  .. "\31\31\31\31()"
local BEFORE_LANE = "^(" .. times(SKIP, 4) .. ")"

-- Id, flags, lane, step and gates of a job of a route that nobody has touched and that is plain but for its lane, tags
-- and a unique key, held on beyond its start; nothing for others.
local function readFirst(spec, state, route)
  if not spec or state then return nil end
  local flags, id, own, hold, lane, step, gates, tail = match(spec, FIRST)
  if tail and own == route and hold ~= HOLD_STARTED and inputAt(spec, tail) then return id, flags, lane, step, gates end
end

-- Lane and gates in what a submit sends of the single job. last: what the one before had before its lane, which is the
-- same for most.
local function laneInBody(body, last)
  if find(body, last.before, 1, true) ~= 1 then last.before = match(body, BEFORE_LANE) end
  local at = #last.before + 1
  local stop = find(body, US, at, true)
  local stepEnd = find(body, US, stop + 1, true)
  local gatesEnd = find(body, US, stepEnd + 1, true)
  return sub(body, at, stop - 1), sub(body, stepEnd + 1, gatesEnd - 1)
end

M.readFirst, M.laneInBody = readFirst, laneInBody
end)
