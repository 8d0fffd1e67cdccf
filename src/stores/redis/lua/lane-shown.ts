/**
 * The texts of lanes (lanes.ts), and lanes that show several jobs. Usually a lane shows the first of its line alone;
 * one that claims take from without a refusal shows the first so many of it, each at its own place among the open
 * lanes, so that a claim takes them as if they had no lane. New jobs that come behind what such a lane shows are shown
 * as they come (lane-joins.ts), else the claim that takes the last one shows the next (lane-next.ts).
 *
 * What is kept true of a lane that shows several:
 * - They are of one route, one behind the other in the line, and no ready job stands before or between them. By turns
 *   each stands one step behind the one before it.
 * - The record names the last of them. It is written when one more is shown, and read when a job is taken that has to
 *   be looked at (openEntry), which is at least one of those that are left. So a claim of all others (midEntry) reads
 *   and writes no record.
 * - Those that were taken are still in the line, and leave it together. Which these are tells the index of open lanes
 *   alone.
 *
 * Everything but the usual claim, join and end reads a lane through loadLanes (lanes.ts), which first makes it show its
 * first job alone (showFirst): then its line has ready jobs only.
 *
 *  shown   how many the record shows, as one character. Nothing: one, and the next time one too, because it was refused
 *          or changed otherwise
 *  step    by which those behind the last one are placed; nothing where lanes go by rank, or where nobody knows
 *  alone   ALONE where nobody of the lane stands in its line behind what it shows: a job that is shown alone then
 *          stands in the record and not in the line. Nothing where nobody knows
 */
import { argumentFields } from "../argument-text.ts";
import { luaList } from "./lua-module.ts";

const lanePattern = `^${argumentFields.lane.map(() => String.raw`([^\31]*)`).join(String.raw`\31`)}$`;

/** Showing one alone again reads all of them. */
const shownMax = 64;
const shownTexts = Array.from({ length: shownMax }, (_, at) => String.fromCharCode("1".charCodeAt(0) + at));

export const laneShownLua = String.raw`
local WHOLE = 9007199254740992
-- Behind the end of a field in the byte order, and before any other character of a text.
local BEHIND_US = " "
local PLACE_LENGTH = 17
local ALONE, ALONE_BYTE = ".", ${".".charCodeAt(0)}
local SHOWN_MAX, ZERO_BYTE = ${shownMax}, ${"0".charCodeAt(0)}
local LANE_PATTERN = "${lanePattern}"
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

-- Place and handle in an entry of the line of a lane.
local function inEntry(lane, entry)
  local place, h = match(entry, "^(%d*)(%l%d+)\31", #lane + 2)
  return place or "", h or ""
end

-- Of a shown job whose lane has to be looked at when it is taken.
local function openEntry(lane, handle) return handle .. US .. lane end

-- Of any other.
local function midEntry(lane, handle, step) return handle .. US .. lane .. RS .. step end

-- How many a record shows, as it says; nothing where it is one.
local function showsMore(text)
  local shown = (byte(text) or 0) - ZERO_BYTE
  return shown > 1 and shown <= SHOWN_MAX and shown
end

-- Where the handle begins in a record.
local function handleAt(text)
  local stop = find(text, US, 1, true)
  stop = stop and find(text, US, stop + 1, true)
  return stop and stop + 1
end

-- The first entries in the line of a lane.
local function inLineOf(c, lane, most)
  return call("ZRANGE", c.k.line, "[" .. lane .. US, "(" .. lane .. BEHIND_US, "BYLEX", "LIMIT", "0", num(most))
end

-- What a lane shows whose record shows several: entries of its line up to the last one with places, handles and scores; first:
-- the first that is left; looks: how many of those that are left have to be looked at. Nothing where the record cannot be
-- read, or nobody is there.
local function shownOf(c, lane, text)
  local _, step, handle, place, route, turn = match(text, LANE_PATTERN)
  if not turn then return nil end
  local last = lineEntry(lane, place, handle, route)
  local entries = call("ZRANGE", c.k.line, "[" .. lane .. US, "[" .. last, "BYLEX", "LIMIT", "0", num(SHOWN_MAX))
  if #entries == 0 then return nil end
  local places, handles, members = {}, {}, {}
  for i, entry in ipairs(entries) do
    places[i], handles[i] = inEntry(lane, entry)
    add2(members, openEntry(lane, handles[i]), midEntry(lane, handles[i], step))
  end
  local both, scores, first, looks = call("ZMSCORE", c.k.open .. route, unpack(members)), {}, nil, 0
  for i = 1, #entries do
    scores[i] = both[2 * i - 1] or both[2 * i]
    if both[2 * i - 1] then looks = looks + 1 end
    first = first or scores[i] and i
  end
  return {
    entries = entries, places = places, handles = handles, members = members, scores = scores, first = first, looks = looks,
    last = last, step = step, route = route, turn = turn,
  }
end

-- A lane that shows several jobs shows its first alone, and those that were taken leave its line. Answers its record;
-- nothing where that cannot be read.
local function showFirst(c, lane, text)
  local s = shownOf(c, lane, text)
  if not s then return nil end
  -- Where the index has none of them, the audit has to look.
  local first, key = s.first or 1, c.k.open .. s.route
  many("ZREM", c.k.line, slice(s.entries, 1, first - 1))
  call("ZREM", key, unpack(s.members))
  local score, h = s.scores[first], s.handles[first]
  if score then call("ZADD", key, score, openEntry(lane, h)) end
  local turn = s.turn ~= "" and score and num(tonumber(score)) or s.turn
  text = concat({ "", "", h, s.places[first], s.route, turn, "", "", "" }, US)
  call("HSET", c.k.lane, lane, text)
  return text
end
`;
