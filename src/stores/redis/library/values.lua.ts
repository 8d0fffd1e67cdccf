/** Numbers, names and lists: what is not about jobs. */
import { argumentFields } from "../packing/argument-text.ts";
import { lua, luaConstant, luaList, luaModule, wrapped } from "./lua.ts";

const readers = Object.entries(argumentFields).map(
  ([name, fields]) => `
local ${luaConstant(name)} = fields(${fields.length})
function READERS.${name}(f, text)
  ${wrapped(fields.map((field) => `f.${field}`)).replaceAll("\n", "\n  ")} = match(text, ${luaConstant(name)})
end`,
);

export const valuesLua = luaModule({
  name: "library/values",
  gives: ["num handleOf seqOf add2 newList push push2 many fetch slice split NONE tagsIn readFields"],
  source: lua`
-- Exact up to 2^53, where Lua's own conversion rounds.
local function num(n) return fmt("%.0f", n) end

local LETTERS = ${luaList("abcdefghijklmnop".split(""))}
-- The last three digits of a seq as text, and what stood before them in the last handle: a number that is formatted
-- costs five times as much as a text that is looked up.
local LAST_DIGITS, lastHigh, lastBegin = {}, 0, ""

local function lastDigits(low)
  local digits = fmt("%03d", low)
  LAST_DIGITS[low] = digits
  return digits
end

-- A job's name in all keys: its seq as text whose byte order is its numeric order: a letter for the number of digits,
-- then the digits.
local function handleOf(seq)
  if seq < 1000 then
    local digits = num(seq)
    return LETTERS[#digits] .. digits
  end
  local low = seq % 1000
  local high = (seq - low) / 1000
  if high ~= lastHigh then
    local digits = num(high)
    lastHigh, lastBegin = high, LETTERS[#digits + 3] .. digits
  end
  return lastBegin .. (LAST_DIGITS[low] or lastDigits(low))
end

local function seqOf(h) return tonumber(sub(h, 2)) end

local function add2(list, one, two)
  local n = #list
  list[n + 1], list[n + 2] = one, two
end

local function newList(lists, key)
  local list = {}
  lists[key] = list
  return list
end

local function push(lists, key, value)
  local list = lists[key] or newList(lists, key)
  list[#list + 1] = value
end

local function push2(lists, key, one, two)
  local list = lists[key] or newList(lists, key)
  local n = #list
  list[n + 1], list[n + 2] = one, two
end

-- A command over many values, in pieces that it can take.
local function many(command, key, list)
  local n = #list
  for i = 1, n, CHUNK do
    call(command, key, unpack(list, i, min(i + CHUNK - 1, n)))
  end
end

-- The same for a command that answers a value for each, of a list or of a part of it.
local function fetch(command, key, list, from, to)
  from, to = from or 1, to or #list
  if to < from then return {} end
  if to - from < CHUNK then return call(command, key, unpack(list, from, to)) end
  local all = {}
  for i = from, to, CHUNK do
    for _, value in ipairs(call(command, key, unpack(list, i, min(i + CHUNK - 1, to)))) do
      all[#all + 1] = value
    end
  end
  return all
end

local function slice(list, from, to)
  local part = {}
  for i = from, to do
    part[i - from + 1] = list[i]
  end
  return part
end

local function split(text, mark)
  local parts, at = {}, 1
  while true do
    local stop = find(text, mark, at, true)
    if not stop then break end
    parts[#parts + 1] = sub(text, at, stop - 1)
    at = stop + 1
  end
  parts[#parts + 1] = sub(text, at)
  return parts
end

-- Nobody changes it.
local NONE = {}
local function tagsIn(text) return text == "" and NONE or split(text, RS) end

-- A pattern that takes n fields. The last one is all that is left, whatever fields it has itself.
local function fields(n) return "^" .. times(TAKE, n - 1) .. "(.*)$" end

local READERS = {}
${readers.join("\n")}

-- An argument or a record of several fields, by their names (argument-text.ts); without a kind, its first field is the
-- kind.
local function readFields(text, kind)
  local fields = {}
  READERS[kind or match(text, "^[^\31]*")](fields, text)
  return fields
end
`,
});
