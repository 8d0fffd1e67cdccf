/**
 * What every part of the library names: marks between fields, states, events, flags and holds by their names, and the
 * server's own functions. These stand outside all modules.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { fieldEnd, itemEnd } from "../../../store/packing/packed-text.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { unchanged } from "../packing/argument-text.ts";
import { flags } from "../packing/packed-fields.ts";
import { lua, luaConstants, luaText } from "./lua.ts";

const {
  submitted,
  replaced,
  promoted,
  claimed,
  started: begun,
  progress,
  freed,
  signalled,
  output,
  step,
} = eventCodes;
const { "cancel-asked": asked } = eventCodes;
const named = {
  ...{ submitted, replaced, promoted, claimed, started: begun, progress },
  ...{ freed, signalled, output, step },
};
const { started, end } = uniqueHolds;

export const constantsLua = lua`
-- Between the fields of a text, between the items of a list; in the place of a value that each job fills in; of a field
-- that a change leaves.
local US, RS, HOLE, UNCHANGED = ${luaText(fieldEnd)}, ${luaText(itemEnd)}, "\000", ${luaText(unchanged)}
-- Of a pattern: a field with its end, taken and passed over.
local TAKE, SKIP = "([^\31]*)\31", "[^\31]*\31"
local function times(text, n)
  local all = ""
  for _ = 1, n do
    all = all .. text
  end
  return all
end
local US_BYTE = ${fieldEnd.charCodeAt(0)}
${luaConstants(stateCodes)}
${luaConstants({ ...named, "cancel-asked": asked })}
${luaConstants(flags, "HAS_")}
${luaConstants({ started, end }, "HOLD_")}
-- In the counts of a route: all its jobs.
local TOTAL = "t"
-- Values that one command takes at once; seqs that are counted together; the span of a list of finished jobs.
local CHUNK, PAGE, MINUTE_MS = 2000, 256, 60000
-- Keeps an index in the form of a large one (enter.lua.ts): longer than an entry of a small one may be, and in no job's
-- name.
local LONG_ENTRY = "${"~".repeat(65)}"
-- What a call of one flush may be made of (flush.lua.ts): each reads its args up to c.last, writes, and answers.
local OPERATIONS = {}
-- While a library is loaded, neither redis.call nor Lua's own modules are there: the first call of any function sets
-- these (call.lua.ts).
local call, fmt, find, sub, byte, match, concat, floor, min, max
`;
