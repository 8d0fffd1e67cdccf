-- Between the fields of a text, between the items of a list; in the place of a value that each job fills in; of a field
-- that a change leaves.
local US, RS, HOLE, UNCHANGED = "\031", "\030", "\000", "\002"
-- Of a pattern: a field with its end, taken and passed over.
local TAKE, SKIP = "([^\31]*)\31", "[^\31]*\31"
local function times(text, n)
  local all = ""
  for _ = 1, n do
    all = all .. text
  end
  return all
end
local US_BYTE = 31
local BLOCKED, SCHEDULED, READY, RUNNING, SUSPENDED, COMPLETED, FAILED,
  CANCELLED, EXPIRED, SKIPPED =
  "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"
local SUBMITTED, REPLACED, PROMOTED, CLAIMED, STARTED, PROGRESS, FREED,
  SIGNALLED, OUTPUT, STEP, CANCEL_ASKED =
  "0", "1", "2", "3", "23", "24", "16", "30", "31", "34", "19"
local HAS_KEY, HAS_TAGS, HAS_CLOCKS, HAS_RARE, HAS_LINES, HAS_OUTPUT, HAS_LANE,
  HAS_GATES, HAS_FLOW =
  "k", "t", "c", "r", "l", "o", "a", "g", "f"
local HOLD_STARTED, HOLD_END =
  "-1", "-2"
-- In the counts of a route: all its jobs.
local TOTAL = "t"
-- Values that one command takes at once; seqs that are counted together; the span of a list of finished jobs.
local CHUNK, PAGE, MINUTE_MS = 2000, 256, 60000
-- Keeps an index in the form of a large one (enter.lua.ts): longer than an entry of a small one may be, and in no job's
-- name.
local LONG_ENTRY = "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"
-- What a call of one flush may be made of (flush.lua.ts): each reads its args up to c.last, writes, and answers.
local OPERATIONS = {}
-- While a library is loaded, neither redis.call nor Lua's own modules are there: the first call of any function sets
-- these (call.lua.ts).
local call, fmt, find, sub, byte, match, concat, floor, min, max
local HAS_CLAIM_LANES = true
local HAS_LEASE_SET = true
local HAS_LEASE_FLOW_MEMBERS = true
local HAS_SETTLE_FLOW_MEMBERS = true
local HAS_SETTLE_SET = true
local HAS_RECORD_SET = true
local HAS_ARRIVE_FLOW_MEMBERS = true
local M = {}
local function module(define) define() end
