/**
 * The texts of lanes (lanes.ts), and the jobs that stand in the record of their lane instead of in its line: the first
 * and some behind it, all of its route. A claim needs no look into the line for them and takes nothing out of it.
 *
 *  behind   place, handle RS of each behind the first, then ALONE where nobody of the lane stands in the line, else MORE.
 *           Nothing where all jobs of the lane stand in the line, the first too
 *  shown    how many of them, from the first on, stand among the open lanes of their route: several where claims have
 *           taken what the lane showed without being refused, four times as many each time. So a claim of one of these reads no
 *           record: all but the last have RS step behind their lane, and stand one step behind the other where lanes go by
 *           turns. Which of them were taken since tells the index alone. Nothing: one, and the next time too
 */
import { argumentFields } from "../argument-text.ts";
import { luaList } from "./lua-module.ts";

export const lanePattern = `^${argumentFields.lane.map(() => String.raw`([^\31]*)`).join(String.raw`\31`)}$`;

const shownMax = 16;
/** One character each, so that a record says by its first how many it shows. */
const shownTexts = Array.from({ length: shownMax }, (_, at) => String.fromCharCode("1".charCodeAt(0) + at));

export const laneKnownLua = String.raw`
local WHOLE = 9007199254740992
-- Behind the end of a field in the byte order, and before any other character of a text.
local BEHIND_US = " "
local PLACE_LENGTH = 17
-- Whether anybody of a lane stands in its line behind those in its record.
local ALONE, MORE = ".", ","
local ALONE_BYTE, MORE_BYTE = ${".".charCodeAt(0)}, ${",".charCodeAt(0)}
-- So many are shown at most: one character each. So many come into a record at least, where the line has them.
local SHOWN_MAX, KNOWN_MIN, ZERO_BYTE = ${shownMax}, 7, ${"0".charCodeAt(0)}
local SHOWN = ${luaList(shownTexts)}

-- A whole number as text whose byte order is its numeric order.
local function placeText(n) return n < 0 and fmt("0%016.0f", n + WHOLE) or fmt("1%016.0f", n) end

local function rankIn(text)
  local n = tonumber(sub(text, 2, 17))
  return sub(text, 1, 1) == "0" and n - WHOLE or n
end

-- The same as a score.
local function scoreIn(text) return sub(text, 1, 1) == "1" and sub(text, 2, 17) or num(rankIn(text)) end

local function lineEntry(lane, place, h, route) return lane .. US .. place .. h .. US .. route end

local function openEntry(lane, handle) return handle .. US .. lane end

-- Of a job that is shown with others behind it.
local function midEntry(lane, handle, step) return handle .. US .. lane .. RS .. step end

-- How many a record shows, as it says; nothing where it is one.
local function showsMore(text)
  local shown = (byte(text) or 0) - ZERO_BYTE
  return shown > 1 and shown <= SHOWN_MAX and shown
end

-- Where the handle of the first job begins in a record.
local function handleAt(text)
  local stop = find(text, US, 1, true)
  return find(text, US, stop + 1, true) + 1
end

-- The jobs in a record behind the first: place and handle of each, and where what follows it begins.
local function knownIn(behind)
  local places, handles, rests, at = {}, {}, {}, 1
  while true do
    local stop = find(behind, RS, at, true)
    if not stop then return places, handles, rests end
    local n = #handles + 1
    places[n], handles[n] = sub(behind, at, at + PLACE_LENGTH - 1), sub(behind, at + PLACE_LENGTH, stop - 1)
    at = stop + 1
    rests[n] = at
  end
end

-- The record of a lane that shows several jobs, taken apart: its jobs with the first as one of them, how many of them are
-- shown, and their scores among the open lanes.
local function shownIn(c, lane, text)
  local _, step, handle, place, route, turn, _, _, behind = match(text, "${lanePattern}")
  if not behind then return nil end
  local places, handles, rests = knownIn(behind)
  table.insert(places, 1, place)
  table.insert(handles, 1, handle)
  table.insert(rests, 1, 1)
  local shown, members = min(showsMore(text), #handles), {}
  for i = 1, shown do members[i] = i < shown and midEntry(lane, handles[i], step) or openEntry(lane, handles[i]) end
  return {
    places = places, handles = handles, rests = rests, shown = shown, members = members, step = step, route = route,
    turn = turn, behind = behind, scores = call("ZMSCORE", c.k.open .. route, unpack(members)),
  }
end

-- A lane that shows several jobs shows its first alone. Answers its record; nothing where that cannot be read.
local function showFirst(c, lane, text)
  local s = shownIn(c, lane, text)
  if not s then return nil end
  local first, key, gone = 1, c.k.open .. s.route, {}
  while first < s.shown and not s.scores[first] do first = first + 1 end
  -- Where the index has none of them, the audit has to look.
  if not s.scores[first] then first = 1 end
  for i = first, s.shown do gone[#gone + 1] = s.members[i] end
  many("ZREM", key, gone)
  local score, h = s.scores[first], s.handles[first]
  if score then call("ZADD", key, score, openEntry(lane, h)) end
  local turn = s.turn ~= "" and score and num(tonumber(score)) or s.turn
  local behind = sub(s.behind, s.rests[first])
  text = concat({ "", "", h, s.places[first], s.route, turn, "", "", behind }, US)
  call("HSET", c.k.lane, lane, text)
  return text
end

-- What stands in the record of a lane goes into its line.
local function unloadLane(record, entries)
  if record.behind == "" then return end
  local places, handles = knownIn(record.behind)
  add2(entries, "0", lineEntry(record.key, record.place, record.handle, record.route))
  for i, h in ipairs(handles) do add2(entries, "0", lineEntry(record.key, places[i], h, record.route)) end
  record.behind, record.isTouched = "", true
end

-- The first entries in the line of a lane.
local function inLineOf(c, lane, most)
  return call("ZRANGE", c.k.line, "[" .. lane .. US, "(" .. lane .. BEHIND_US, "BYLEX", "LIMIT", "0", num(most))
end

-- Whether a ready job stands in the record of its lane.
local function isInRecord(c, job)
  local text = call("HGET", c.k.lane, job.laneKey)
  if not text or byte(text, -1) == US_BYTE then return false end
  local place, at = placeText(tonumber(job.rank)), handleAt(text)
  local first = job.h .. US .. place .. US .. job.route .. US
  if find(text, first, at, true) == at then return true end
  return find(text, US .. job.route .. US, at, true) and find(text, place .. job.h .. RS, at, true) and true or false
end
`;
