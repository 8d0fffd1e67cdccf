/**
 * The set path of record: entries of a running attempt, of which the call has nothing else. Only what stands before the
 * flags of the state changes, so the state is not read, and no other index and no event follows. Where a later part of
 * the call meets the job, it reads the state that is written here (c.done).
 */
import { takes } from "../library/path-branches.ts";
import { lua, luaModule } from "../library/lua.ts";
import { skipped } from "../packing/lua-fields.ts";
import { restFields } from "../packing/packed-fields.ts";
import type { PackedName } from "../packing/packed-fields.ts";
import { recordParts as parts } from "../packing/argument-text.ts";

/** After the flags of a state: where its attempt begins and ends, and whether a cancel was requested. */
const [first, asked] = [restFields.indexOf("flags") + 1, restFields.indexOf("cancelAsked")];
const patterns: Partial<Record<PackedName, string>> = {
  attempt: `()${skipped}()`,
  cancelAsked: `(${skipped})`,
};
const setBackPattern = String.raw`"^\31${restFields
  .slice(first, asked + 1)
  .map((name) => patterns[name] ?? skipped)
  .join(String.raw`\31`)}"`;

export const recordEntriesLua = luaModule({
  name: "durable/record-entries",
  takes: ["fetch journalIn many nextArg nextNumber num OF_OTHERS push2 withJournal withMark withoutRead"],
  gives: ["recordEntries"],
  source: lua`
local ENTRIES, ENTRIES_AND_BACK = ${parts.entries}, ${parts.entries + parts.setsBack}
local SET_BACK = ${setBackPattern}
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
  local isOfSet = ${takes("record: set")}
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
`,
});
