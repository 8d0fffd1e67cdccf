/** The texts of lanes (lanes.lua.ts): places, entries of lines and indexes, and records. */
import { argumentFields } from "../packing/argument-text.ts";
import { lua, luaModule } from "../library/lua.ts";
import { captured, fieldsPattern } from "../packing/lua-fields.ts";

const lanePattern = fieldsPattern(
  argumentFields.lane.slice(1).map(() => captured),
  { after: `${captured}$` },
);

export const laneTextsLua = luaModule({
  name: "groups/lane-texts",
  takes: ["num"],
  gives: [
    "AFTER_US PLACE_LENGTH LANE_PATTERN placeText rankIn scoreIn lineEntry inLine openEntry",
    "lineAfter",
  ],
  source: lua`
local WHOLE = 9007199254740992
-- After the end of a field in the byte order, and before any other character of a text.
local AFTER_US = " "
local PLACE_LENGTH = 17
local LANE_PATTERN = ${lanePattern}

-- A whole number as text whose byte order is its numeric order.
local function placeText(n) return n < 0 and fmt("0%016.0f", n + WHOLE) or fmt("1%016.0f", n) end

local function rankIn(text)
  local n = tonumber(sub(text, 2, 17))
  return sub(text, 1, 1) == "0" and n - WHOLE or n
end

-- The same as a score.
local function scoreIn(text) return sub(text, 1, 1) == "1" and sub(text, 2, 17) or num(rankIn(text)) end

local function lineEntry(lane, place, h, route) return lane .. US .. place .. h .. US .. route end

-- Place, handle and route in an entry of the line of a lane.
local function inLine(lane, entry)
  local placeAt = #lane + 2
  local handleAt = placeAt + PLACE_LENGTH
  local stop = find(entry, US, handleAt, true) or #entry + 1
  return sub(entry, placeAt, handleAt - 1), sub(entry, handleAt, stop - 1), sub(entry, stop + 1)
end

local function openEntry(lane, handle) return handle .. US .. lane end

-- Entries in the line of a lane after this one, or from the first. most: as text.
local function lineAfter(c, lane, entry, most)
  local from, stop = entry and "(" .. entry or "[" .. lane .. US, "(" .. lane .. AFTER_US
  return call("ZRANGE", c.k.line, from, stop, "BYLEX", "LIMIT", "0", most)
end
`,
});
