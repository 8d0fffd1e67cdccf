-- library/values
module(function()

-- Exact up to 2^53, where Lua's own conversion rounds.
local function num(n) return fmt("%.0f", n) end

local LETTERS = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
  "o", "p" }
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

local SHAPE = fields(13)
function READERS.shape(f, text)
  f.route, f.due, f.rankBase, f.rankSlope, f.deadline, f.ttlMs, f.onHeld,
    f.hasTags, f.hasLane, f.hasGates, f.waits, f.freed, f.content = match(text, SHAPE)
end

local GUARD = fields(6)
function READERS.guard(f, text)
  f.states, f.rev, f.fence, f.rang, f.mask, f.marks = match(text, GUARD)
end

local SCHEDULE = fields(15)
function READERS.schedule(f, text)
  f.kind, f.event, f.due, f.rankBase, f.rankSlope, f.countsAttempt,
    f.ttlMs, f.attempt, f.clearsPassedDeadline, f.keepsLane, f.newRound,
    f.input, f.policy, f.meta, f.tags = match(text, SCHEDULE)
end

local SUSPEND = fields(6)
function READERS.suspend(f, text)
  f.kind, f.event, f.wake, f.countsAttempt, f.attempt, f.keepsLane = match(text, SUSPEND)
end

local HANDBACK = fields(3)
function READERS.handBack(f, text)
  f.kind, f.event, f.countsAttempt = match(text, HANDBACK)
end

local UPDATE = fields(10)
function READERS.update(f, text)
  f.kind, f.event, f.cancelAsked, f.rankBase, f.rankSlope, f.passesOn,
    f.input, f.policy, f.meta, f.tags = match(text, UPDATE)
end

local BLOCK = fields(6)
function READERS.block(f, text)
  f.kind, f.event, f.attempt, f.need, f.slack, f.parents = match(text, BLOCK)
end

local DELETE = fields(2)
function READERS.delete(f, text)
  f.kind, f.event = match(text, DELETE)
end

local FINISH = fields(8)
function READERS.finish(f, text)
  f.kind, f.event, f.to, f.keepMs, f.keepResultMs, f.keepsLane, f.reason,
    f.result = match(text, FINISH)
end

local ENTRY = fields(5)
function READERS.entry(f, text)
  f.marks, f.unread, f.reads, f.key, f.body = match(text, ENTRY)
end

local APPEND = fields(7)
function READERS.append(f, text)
  f.countMax, f.sizeMax, f.marks, f.unread, f.reads, f.key, f.body = match(text, APPEND)
end

local ADD = fields(4)
function READERS.add(f, text)
  f.by, f.ceiling, f.marks, f.leaves = match(text, ADD)
end

local HOLDER = fields(4)
function READERS.holder(f, text)
  f.handle, f.hold, f.heldUntil, f.id = match(text, HOLDER)
end

local DOC = fields(4)
function READERS.doc(f, text)
  f.version, f.dueAt, f.expiresAt, f.body = match(text, DOC)
end

local GATE = fields(12)
function READERS.gate(f, text)
  f.version, f.cap, f.stepUs, f.burstUs, f.tatUs, f.closedUntil, f.perKey,
    f.perCap, f.perStepUs, f.perBurstUs, f.isIntakeClosed, f.body = match(text, GATE)
end

local LANE = fields(5)
function READERS.lane(f, text)
  f.handle, f.place, f.route, f.turn, f.waitsAt = match(text, LANE)
end

-- An argument or a record of several fields, by their names (argument-text.ts); without a kind, its first field is the
-- kind.
local function readFields(text, kind)
  local fields = {}
  READERS[kind or match(text, "^[^\31]*")](fields, text)
  return fields
end

M.num, M.handleOf, M.seqOf, M.add2, M.newList, M.push = num, handleOf, seqOf, add2, newList, push
M.push2, M.many, M.fetch, M.slice, M.split, M.NONE, M.tagsIn = push2, many, fetch, slice, split, NONE, tagsIn
M.readFields = readFields
end)
