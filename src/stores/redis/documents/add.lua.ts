/** Rule R9: what an add makes of a counter. All numbers are whole and exact: those of Lua are the same as ours. */
import { lua, luaModule } from "../library/lua.ts";

export const addLua = luaModule({
  name: "documents/add",
  takes: ["readFields split"],
  gives: ["addTo"],
  source: lua`
local WHOLE_MAX = ${Number.MAX_SAFE_INTEGER}

local function isWhole(n) return n and n == floor(n) and n <= WHOLE_MAX and n >= -WHOLE_MAX end

local function numberIn(body) return (body == "0" or find(body, "^%-?[1-9]%d*$")) and tonumber(body) or nil end

local function hasPassed(marks, before, sum)
  for _, mark in ipairs(split(marks, ",")) do
    local n = tonumber(mark)
    if n and before < n and n <= sum then return true end
  end
  return false
end

-- body: of the counter, "0" if there is none. text: by, ceiling, marks by comma, what is left (argument-text.ts).
-- Answers the sum and the document to leave, if a mark was passed; or nothing, why it is refused, and the present
-- number.
local function addTo(body, text)
  local add, before = readFields(text, "add"), numberIn(body)
  local by, ceiling = tonumber(add.by), tonumber(add.ceiling)
  if not isWhole(before) or not isWhole(by) then return nil, "uncountable", 0 end
  local sum = before + by
  if by > 0 and ceiling and sum > ceiling then return nil, "above-ceiling", before end
  if not isWhole(sum) then return nil, "uncountable", 0 end
  return sum, add.leaves ~= "" and hasPassed(add.marks, before, sum) and add.leaves or nil
end
`,
});
