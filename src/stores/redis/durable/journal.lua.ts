/**
 * The journal of a durable run (R2, store/rules/journal.ts). A call changes it in its view of the job; it is written
 * with the job (writeJournal), so that a refused unit leaves nothing. Its keys go with the job.
 *
 *  journal:h  list  entries: at US key US body; the number of each is its place
 *  known:h    hash  keys that the journal refuses: those of its entries -> "", and of earlier rounds those below -> o,
 *                   which are refused to others only
 *  others:h   list  keys of entries that others have appended, oldest first; a new round keeps the newest
 *
 * The head of a journal is in the state of its job (packing.lua.ts), where guards, settles and renewals read it: the
 * marks, the last number, and number and size of each unread entry. Most runs have few of these at a time.
 *
 *  job.appended   entries of this call, from the last one back
 *  job.round      what is left of earlier ones if this call began a new round: entries, known keys, keys of others
 */
import { durableMarks, roundStep } from "../../../model/durable/durable-marks.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { lua, luaModule } from "../library/lua.ts";

export const journalLua = luaModule({
  name: "durable/journal",
  takes: ["add2 many NONE num slice"],
  gives: [
    "OF_OTHERS hasChildren withMark withoutRead isKnownKey isFull appendEntry appendEntries beginRound",
    "journalKeys writeJournal",
  ],
  source: lua`
local HAS_JOURNAL, IS_ENDING, HAS_CHILDREN =
  ${durableMarks.hasJournal}, ${durableMarks.isEnding}, ${durableMarks.hasChildren}
local ROUND_STEP, KEYS_KEPT_MAX = ${roundStep}, ${storeLimits.journalKeysKeptMax}
-- What is known of a key of an earlier round.
local OF_OTHERS = "o"

-- Whether the end of a job leaves deferred work for those that it has started (R3).
local function hasChildren(job) return job.durable ~= "0" and bit.band(tonumber(job.durable), HAS_CHILDREN) ~= 0 end

-- Marks with those of an entry, which may have none (""). Whatever is appended sets hasJournal.
local function withMark(durable, marks) return num(bit.bor(tonumber(durable), HAS_JOURNAL, tonumber(marks) or 0)) end

-- The unread entries without those that an entry reads: their numbers, by comma.
local function withoutRead(unread, reads)
  local read = "," .. reads .. ","
  local left = string.gsub(unread, "(%d+):%d+%.", function(n)
    if find(read, "," .. n .. ",", 1, true) then return "" end
  end)
  return left
end

-- How the journal knows a key: as that of an entry, as one of earlier rounds, or not.
local function knownAs(c, job, key)
  local appended = job.appended
  while appended do
    if appended.key == key then return "" end
    appended = appended.before
  end
  if job.round then return job.round.known[key] end
  return job.durable ~= "0" and call("HGET", c.k.known .. job.h, key) or nil
end

-- Whether it refuses the entry of another.
local function isKnownKey(c, job, key) return knownAs(c, job, key) ~= nil end

-- Whether the journal has no room for the entry of another (argument-text.ts).
local function isFull(job, append)
  if append.countMax == "" then return false end
  local count, size = append.unread == "" and 0 or 1, tonumber(append.unread) or 0
  for each in string.gmatch(job.unread, ":(%d+)") do
    count, size = count + 1, size + each
  end
  return count > tonumber(append.countMax) or size > tonumber(append.sizeMax)
end

-- An entry whose key is new; the job was touched. The deadline and a requested cancel must not stop the undos of a run
-- that is ending.
local function appendEntry(c, job, entry, isForeign)
  job.durable, job.last = withMark(job.durable, entry.marks), job.last + 1
  if entry.unread ~= "" then job.unread = job.unread .. num(job.last) .. ":" .. entry.unread .. "." end
  if entry.reads ~= "" then job.unread = withoutRead(job.unread, entry.reads) end
  local text = c.at .. US .. entry.key .. US .. entry.body
  job.appended = { before = job.appended, key = entry.key, text = text, isForeign = isForeign }
  if entry.marks ~= "" and bit.band(tonumber(entry.marks), IS_ENDING) ~= 0 then
    if job.deadlineAt ~= "" then
      job.deadlineAt, job.isRewritten = "", true
    end
    job.cancelAsked = "0"
  end
end

-- Own entries. Answers whether one of them was new.
local function appendEntries(c, job, entries)
  local isNew = false
  for _, entry in ipairs(entries) do
    job.durable = withMark(job.durable, "")
    if knownAs(c, job, entry.key) ~= "" then
      appendEntry(c, job, entry, false)
      isNew = true
    end
  end
  return isNew
end

-- What the call has appended, in order: texts, keys and values for the known ones, keys of others.
local function appendedOf(job)
  local newest, texts, known, others = {}, {}, {}, {}
  local appended = job.appended
  while appended do
    newest[#newest + 1] = appended
    appended = appended.before
  end
  for i = #newest, 1, -1 do
    local entry = newest[i]
    texts[#texts + 1] = entry.text
    add2(known, entry.key, "")
    if entry.isForeign then others[#others + 1] = entry.key end
  end
  return texts, known, others
end

-- The entries from one number to another. The journal has stored entries before those of the call (texts).
local function entriesFrom(c, job, from, to, stored, texts)
  if from > stored then return slice(texts, from - stored, to - stored) end
  if job.round then return slice(job.round.entries, from, to) end
  return call("LRANGE", c.k.journal .. job.h, from - 1, to - 1)
end

-- R2: the unread entries stay, with new numbers; of all others only the newest keys that others have appended.
local function beginRound(c, job)
  local texts, _, others = appendedOf(job)
  local kept, unread, known, remembered = {}, {}, {}, {}
  local stored = job.last - #texts
  local from, to
  local function keepThem()
    for _, text in ipairs(from and entriesFrom(c, job, from, to, stored, texts) or NONE) do
      kept[#kept + 1], known[match(text, "^[^\31]*\31([^\31]*)")] = text, ""
    end
  end
  -- Entries in a row are read together.
  for number, size in string.gmatch(job.unread, "(%d+):(%d+)%.") do
    local n = tonumber(number)
    unread[#unread + 1] = num(#unread + 1) .. ":" .. size .. "."
    if not from or n ~= to + 1 or n == stored + 1 then
      keepThem()
      from = n
    end
    to = n
  end
  keepThem()
  local before = job.round and job.round.others or NONE
  if not job.round and job.durable ~= "0" then before = call("LRANGE", c.k.others .. job.h, -KEYS_KEPT_MAX, -1) end
  for i = max(1, #before + #others - KEYS_KEPT_MAX + 1), #before + #others do
    local key = before[i] or others[i - #before]
    remembered[#remembered + 1], known[key] = key, known[key] or OF_OTHERS
  end
  local durable = tonumber(job.durable)
  job.durable = num((floor(durable / ROUND_STEP) + 1) * ROUND_STEP + durable % 2)
  job.last, job.unread, job.appended = #kept, concat(unread), nil
  job.round = { entries = kept, known = known, others = remembered }
end

local function journalKeys(k, h) return k.journal .. h, k.known .. h, k.others .. h end

local function writeJournal(c, job)
  local k, h, round = c.k, job.h, job.round
  if round then
    local known = {}
    for key, as in pairs(round.known) do
      add2(known, key, as)
    end
    call("UNLINK", journalKeys(k, h))
    many("RPUSH", k.journal .. h, round.entries)
    many("HSET", k.known .. h, known)
    many("RPUSH", k.others .. h, round.others)
  end
  if job.appended then
    local texts, known, others = appendedOf(job)
    many("RPUSH", k.journal .. h, texts)
    many("HSET", k.known .. h, known)
    many("RPUSH", k.others .. h, others)
  end
  job.round, job.appended = nil, nil
end
`,
});
