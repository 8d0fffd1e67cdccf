-- durable/record-entries
module(function()
local fetch, journalIn, many, nextArg, nextNumber = M.fetch, M.journalIn, M.many, M.nextArg, M.nextNumber
local num, OF_OTHERS, push2, withJournal, withMark = M.num, M.OF_OTHERS, M.push2, M.withJournal, M.withMark
local withoutRead = M.withoutRead

local ENTRIES, ENTRIES_AND_BACK = 4, 12
local SET_BACK = "^\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31()[^\31]*()\31[^\31]*\31[^\31]*\31([^\31]*)"
-- What most entries begin with: no marks, not unread, reading none.
local BARE = US .. US .. US

-- An own entry may have a key that only an earlier round has heard.
local function takeRemembered(known, key)
  if call("HGET", known, key) ~= OF_OTHERS then return false end
  call("HSET", known, key, "")
  return true
end

-- Appends the next entries: texts and head of the journal are worked out, but for the keys that it knows. Answers the
-- head after them.
local function appendNext(c, h, durable, last, unread)
  local texts, known, key = {}, c.k.known .. h, nil
  for _ = 1, nextNumber(c) do
    local entry, marks, size, reads, stored = nextArg(c), "", "", "", nil
    if find(entry, BARE, 1, true) == 1 then
      stored = sub(entry, #BARE)
    else
      marks, size, reads, stored = match(entry, "^([^\31]*)\31([^\31]*)\31([^\31]*)(\31.*)$")
    end
    key = match(stored, "^\31([^\31]*)")
    if call("HSETNX", known, key, "") == 1 or takeRemembered(known, key) then
      last, texts[#texts + 1] = last + 1, c.at .. stored
      if size ~= "" then unread = unread .. num(last) .. ":" .. size .. "." end
      if reads ~= "" then unread = withoutRead(unread, reads) end
      durable = withMark(durable, marks)
    else
      durable = withMark(durable, "")
    end
  end
  many("RPUSH", c.k.journal .. h, texts)
  return durable, last, unread
end

-- Attempts and the rest of a state after its flags, as those of a first attempt. A requested cancel has its reason in
-- the attempt log.
local function setBack(attempts, rest)
  local from, to, isAsked = match(rest, SET_BACK)
  return isAsked == "1" and attempts or "", sub(rest, 1, from - 1) .. "1" .. sub(rest, to)
end

-- Records the next write where it is of the set: one with entries alone, of a job that runs under this lease and that
-- the call has not in view. Answers the last number of its journal then, else nothing.
local function recordEntries(c, first, total, at, prefix, parts)
  local isOfSet = HAS_RECORD_SET and (parts == ENTRIES or parts == ENTRIES_AND_BACK)
    and c.jobs[c.args[first + at - 1]] == nil
  if not isOfSet then return nil end
  if not c.recorded then
    c.recorded, c.done, c.states = fetch("HMGET", c.k.state, c.args, first, first + total - 1), {}, {}
  end
  local h = c.args[first + at - 1]
  local state, running = c.done[h] or c.recorded[at], RUNNING .. US .. prefix
  if not state or find(state, running, 1, true) ~= 1 then return nil end
  local attempts, flags, restAt = match(state, "^([^\31]*)\31([^\31]*)()", #running + 1)
  local durable, last, unread, own = journalIn(flags)
  if not durable then return nil end
  local rest = sub(state, restAt)
  if parts == ENTRIES_AND_BACK then
    attempts, rest = setBack(attempts, rest)
  end
  durable, last, unread = appendNext(c, h, durable, last, unread)
  state = running .. attempts .. US .. withJournal(durable, last, unread, own) .. rest
  c.done[h] = state
  push2(c, "states", h, state)
  return last
end

M.recordEntries = recordEntries
end)
