-- packing/packing
module(function()
local num = M.num

local STATES = { ["0"] = true, ["1"] = true, ["2"] = true, ["3"] = true, ["4"] = true,
  ["5"] = true, ["6"] = true, ["7"] = true, ["8"] = true, ["9"] = true }
-- How the fields of each text are taken.
local SHORT_HEAD = "^" .. times(TAKE, 6) .. "()"
local HEAD = "^" .. times(TAKE, 19) .. "()"
local OWN = "^" .. times(TAKE, 11) .. "()"
local TAIL = "^" .. times(TAKE, 2) .. "([^\31]*)$"
local LEASE = "^" .. times(TAKE, 3) .. "()"
local REST = "^" .. times(TAKE, 25) .. "([^\31]*)$"
local SHORT_HEAD_END = "^" .. times(SKIP, 6) .. "()"
local HEAD_END = "^" .. times(SKIP, 19) .. "()"
local PLAIN = "^\31" .. SKIP .. "%d+()\31" .. TAKE .. "\31%-?%d*\31()"
local TIMES = "^\31\31" .. times(SKIP, 13) .. "\31" .. SKIP
  .. "()%d+()\31=?\31()%d+()\31()"
local FLOW = "^" .. times(SKIP, 4) .. "[^\31]*f"

local function isNumber(text) return find(text, "^%-?%d+$") end

-- Where the last field of the tail that begins here begins: the input. Nothing where there is no such tail.
local function inputAt(text, at)
  for _ = 2, 3 do
    local stop = find(text, US, at, true)
    if not stop then return nil end
    at = stop + 1
  end
  return not find(text, US, at, true) and at or nil
end

local function isShortSpec(spec) return find(spec, US, 1, true) == 1 end

local function inputBytes(spec)
  local at = match(spec, isShortSpec(spec) and SHORT_HEAD_END or HEAD_END)
  at = at and inputAt(spec, at)
  return at and #spec - at + 1 or 0
end

local function newJob() return { flags = "", id = "", createdAt = "", route = "", dueAt = "", rank = "",
  deadlineAt = "", ttlAt = "", uniqueKey = "", uniqueHold = "",
  digest = "", tags = "", laneKey = "", laneStep = "", laneGates = "",
  flow = "", edges = "", freed = "", waits = "", state = "", fence = "0",
  attempts = "", rev = 1, attempt = 0, countsAttempt = "1",
  settledFence = "", cancelAsked = "0", changeToken = "", keepsLane = "0",
  progress = "", owner = "", claimedAt = "", startedAt = "",
  leaseEndsAt = "", attemptEndsAt = "", endedAt = "", keepUntil = "",
  resultUntil = "", reason = "", result = "", uses = "", durable = "0",
  last = 0, unread = "" } end

local function hasRare(job) return job.digest ~= "" or job.flow ~= "" or job.edges ~= "" or job.freed ~= ""
  or job.waits ~= "" end

local function flagsOf(job)
  return (job.uniqueKey ~= "" and HAS_KEY or "")
    .. (job.tags ~= "" and HAS_TAGS or "")
    .. ((job.deadlineAt ~= "" or job.ttlAt ~= "") and HAS_CLOCKS or "")
    .. (hasRare(job) and HAS_RARE or "")
    .. (job.hasLines and HAS_LINES or "")
    .. (job.hasOutput and HAS_OUTPUT or "")
    .. (job.laneKey ~= "" and HAS_LANE .. (job.laneGates ~= "" and HAS_GATES or "") or "")
    .. (job.waits ~= "" and HAS_FLOW or "")
end

-- job.tailAt: where the tail begins. Answers whether it is a spec.
local function readSpec(job, text)
  local at = 1
  if isShortSpec(text) then
    job.flags, job.id, job.createdAt, job.route, job.dueAt, job.rank, at = match(text, SHORT_HEAD, at)
    job.deadlineAt, job.ttlAt, job.uniqueKey, job.uniqueHold, job.digest, job.tags = "", "", "", "", "", ""
    job.laneKey, job.laneStep, job.laneGates, job.flow, job.edges, job.freed = "", "", "", "", "", ""
    job.waits = ""
  else
    job.flags, job.id, job.createdAt, job.route, job.dueAt, job.rank,
      job.deadlineAt, job.ttlAt, job.uniqueKey, job.uniqueHold, job.digest,
      job.tags, job.laneKey, job.laneStep, job.laneGates, job.flow, job.edges,
      job.freed, job.waits, at = match(text, HEAD, at)
  end
  local isSpec = at and inputAt(text, at) and job.flags and isNumber(job.createdAt)
    and (job.dueAt == "" or isNumber(job.dueAt))
    and (job.rank == "" or isNumber(job.rank))
    and (job.deadlineAt == "" or isNumber(job.deadlineAt))
    and (job.ttlAt == "" or isNumber(job.ttlAt))
    and (job.uniqueHold == "" or isNumber(job.uniqueHold))
    and (job.laneStep == "" or isNumber(job.laneStep))
  if not isSpec then return false end
  if job.dueAt == "" then job.dueAt = job.createdAt end
  if job.rank == "" then job.rank = job.dueAt end
  job.specDueAt, job.specRank = job.dueAt, job.rank
  job.tailAt = at
  return true
end

-- What a submit sends of the single job: own fields and tail.
local function readOwn(job, text)
  local at = 1
  job.uniqueKey, job.uniqueHold, job.digest, job.tags, job.laneKey,
    job.laneStep, job.laneGates, job.flow, job.edges, job.freed, job.waits,
    at = match(text, OWN, at)
  job.tail = sub(text, at)
end

local function readTail(text)
  local tail, at = {}, 1
  tail.policy, tail.meta, tail.input = match(text, TAIL, at)
  return tail
end

local function tailText(tail) return concat({ tail.policy, tail.meta, tail.input }, US) end

local function headOf(job)
  job.specDueAt, job.specRank = job.dueAt, job.rank
  if job.flags == "" then return concat({ job.flags, job.id, job.createdAt, job.route,
    job.dueAt == job.createdAt and "" or job.dueAt,
    job.rank == job.dueAt and "" or job.rank }, US) end
  return concat({ job.flags, job.id, job.createdAt, job.route,
    job.dueAt == job.createdAt and "" or job.dueAt,
    job.rank == job.dueAt and "" or job.rank, job.deadlineAt, job.ttlAt }, US)
end

local function specOf(job)
  if job.flags == "" then return headOf(job) .. US .. job.tail end
  return concat({ headOf(job), job.uniqueKey, job.uniqueHold, job.digest, job.tags, job.laneKey,
    job.laneStep, job.laneGates, job.flow, job.edges, job.freed, job.waits, job.tail }, US)
end

-- The head of a journal, before the flags: marks, last number, number and size of each unread entry.
local JOURNAL_HEAD, NINE = "^(%d+),(%d+),([%d:.]*)(%l*)$", 57

-- Marks, last number, unread entries and the flags themselves; nothing for what is no such text.
local function journalIn(flags)
  local first = byte(flags)
  if not first or first > NINE then return "0", 0, "", flags end
  local durable, last, unread, own = match(flags, JOURNAL_HEAD)
  return durable, tonumber(last), unread, own
end

local function withJournal(durable, last, unread, flags)
  if durable == "0" then return flags end
  return concat({ durable, num(last), unread .. flags }, ",")
end

-- A state after its fence and id. Where the spec was not read, what is as in the spec stays nothing, and is written as
-- it was. Answers whether it is one.
local function readRest(job, text, at)
  job.attempts, job.flags, job.route, job.rev, job.rank, job.dueAt,
    job.ttlAt, job.attempt, job.countsAttempt, job.settledFence,
    job.cancelAsked, job.changeToken, job.keepsLane, job.waits, job.progress,
    job.owner, job.claimedAt, job.startedAt, job.leaseEndsAt,
    job.attemptEndsAt, job.endedAt, job.keepUntil, job.resultUntil,
    job.reason, job.result, job.uses = match(text, REST, at)
  local isRest = job.attempts and isNumber(job.rev)
    and (job.rank == "" or isNumber(job.rank))
    and (job.dueAt == "" or isNumber(job.dueAt))
    and (job.ttlAt == "" or isNumber(job.ttlAt)) and isNumber(job.attempt)
    and (job.countsAttempt == "0" or job.countsAttempt == "1")
    and (job.settledFence == "=" or job.settledFence == "" or isNumber(job.settledFence))
    and (job.cancelAsked == "0" or job.cancelAsked == "1")
    and (job.keepsLane == "0" or job.keepsLane == "1")
    and (job.claimedAt == "" or isNumber(job.claimedAt))
    and (job.startedAt == "=" or job.startedAt == "" or isNumber(job.startedAt))
    and (job.leaseEndsAt == "" or isNumber(job.leaseEndsAt))
    and (job.attemptEndsAt == "" or isNumber(job.attemptEndsAt))
    and (job.endedAt == "" or isNumber(job.endedAt))
    and (job.keepUntil == "" or isNumber(job.keepUntil))
    and (job.resultUntil == "" or isNumber(job.resultUntil))
  if not isRest then return false end
  job.durable, job.last, job.unread, job.flags = journalIn(job.flags)
  if not job.durable then return false end
  if job.settledFence == "=" then job.settledFence = job.fence end
  if job.startedAt == "=" then job.startedAt = job.claimedAt end
  if job.dueAt == "" then job.dueAt = job.specDueAt end
  if job.rank == "" then job.rank = job.specRank end
  job.rev, job.attempt = tonumber(job.rev), tonumber(job.attempt)
  job.hasLines = find(job.flags, HAS_LINES, 1, true) ~= nil
  job.hasOutput = find(job.flags, HAS_OUTPUT, 1, true) ~= nil
  return true
end

-- The same where others of the call had the same text there: what was read of it is copied. alike: by that text.
local function recallRest(job, text, at, alike)
  local rest = sub(text, at)
  local known = alike[rest]
  if not known then
    known = { fence = "=", specDueAt = "", specRank = "" }
    if not readRest(known, rest, 1) then return false end
    alike[rest] = known
  end
  job.attempts, job.flags, job.route = known.attempts, known.flags, known.route
  job.rev, job.rank, job.dueAt = known.rev, known.rank, known.dueAt
  job.ttlAt, job.attempt, job.countsAttempt = known.ttlAt, known.attempt, known.countsAttempt
  job.settledFence, job.cancelAsked, job.changeToken = known.settledFence, known.cancelAsked, known.changeToken
  job.keepsLane, job.waits, job.progress = known.keepsLane, known.waits, known.progress
  job.owner, job.claimedAt, job.startedAt = known.owner, known.claimedAt, known.startedAt
  job.leaseEndsAt, job.attemptEndsAt, job.endedAt = known.leaseEndsAt, known.attemptEndsAt, known.endedAt
  job.keepUntil, job.resultUntil, job.reason = known.keepUntil, known.resultUntil, known.reason
  job.result, job.uses = known.result, known.uses
  job.durable, job.last, job.unread = known.durable, known.last, known.unread
  if job.settledFence == "=" then job.settledFence = job.fence end
  if job.startedAt == "=" then job.startedAt = job.claimedAt end
  if job.dueAt == "" then job.dueAt = job.specDueAt end
  if job.rank == "" then job.rank = job.specRank end
  job.hasLines, job.hasOutput = known.hasLines, known.hasOutput
  return true
end

-- alike: as above, where others are read with it.
local function readState(job, text, alike)
  local at = 1
  job.state, job.fence, job.id, at = match(text, LEASE, at)
  if not at or not STATES[job.state] or not isNumber(job.fence) then return false end
  if alike then return recallRest(job, text, at, alike) end
  return readRest(job, text, at)
end

-- Whether a state is that of a job of a flow.
local function isOfFlow(state) return find(state, FLOW) == 1 end

local function restOf(job) return concat({ job.attempts, withJournal(job.durable, job.last, job.unread, job.flags),
  job.route, job.rev, job.rank == job.specRank and "" or job.rank,
  job.dueAt == job.specDueAt and "" or job.dueAt, job.ttlAt, job.attempt,
  job.countsAttempt,
  job.settledFence == job.fence and "=" or job.settledFence,
  job.cancelAsked, job.changeToken, job.keepsLane, job.waits, job.progress,
  job.owner, job.claimedAt,
  job.startedAt == job.claimedAt and "=" or job.startedAt, job.leaseEndsAt,
  job.attemptEndsAt, job.endedAt, job.keepUntil, job.resultUntil,
  job.reason, job.result, job.uses }, US) end

local function stateOf(job) return concat({ job.state, job.fence, job.id, restOf(job) }, US) end

-- What a running job's state has after its id, without the times of its claim and its lease, and the first of these.
-- Nothing for a job that has more of its own there: attempts, progress or a reported start.
local function cutTimes(rest)
  local claimed, claimedEnd, leased, leasedEnd = match(rest, TIMES)
  if not leased then return nil end
  return sub(rest, 1, claimed - 1) .. HOLE .. sub(rest, claimedEnd, leased - 1) .. HOLE .. sub(rest, leasedEnd),
    sub(rest, claimed, claimedEnd - 1)
end

-- What a finished job's state has between its attempts and its result, from a template with holes there and for these
-- times.
local function fillEnding(parts, claimedAt, endedAt) return parts[2]
  .. claimedAt .. parts[3]
  .. endedAt .. parts[4] end

-- A state after its id, from a template with holes for the id and the times of the claim.
local function fillFirst(parts, claimedAt, leaseEndsAt) return parts[2]
  .. claimedAt .. parts[3]
  .. leaseEndsAt .. parts[4] end

-- What a plain job of a route that was due when it was made has between its id, which stops here, and its input;
-- nothing for others. known: the same of another such job, which most likely differs in its time alone.
local function readShared(spec, stop, route, known)
  local at = known and find(spec, known.behind, stop + 1, true)
  if at and find(sub(spec, stop + 1, at - 1), "^%d+$") then
    return { text = sub(spec, stop, at + #known.behind - 1), behind = known.behind }
  end
  local at, own, tail = match(spec, PLAIN)
  local input = tail and own == route and inputAt(spec, tail)
  return input and { text = sub(spec, stop, input - 1), behind = sub(spec, at, input - 1) }
end

-- The text that plain jobs of a route share, as readPlain has met it last; one that no spec has where it has met none.
local function sharedOf(alike, route) return alike[route] and alike[route].text or HOLE end

-- The id of a plain job of a route that was due when it was made; nothing for others. alike: what the last one of a
-- route shared. Jobs that were made in one call share all but id and input, and one comparison reads them.
local function readPlain(spec, route, alike)
  local shared, stop = alike[route], find(spec, US, 2, true)
  if byte(spec) ~= US_BYTE or not stop then return nil end
  if not shared or find(spec, shared.text, stop, true) ~= stop then
    shared = readShared(spec, stop, route, shared)
    if not shared then return nil end
    alike[route] = shared
  end
  if not find(spec, US, stop + #shared.text, true) then return sub(spec, 2, stop - 1) end
end

-- The unique keys of specs; nothing for one that has none, or is none.
local function keysIn(specs)
  local keys = {}
  for i, spec in ipairs(specs) do
    local job = {}
    keys[i] = spec and readSpec(job, spec) and job.uniqueKey ~= "" and job.uniqueKey or false
  end
  return keys
end

local function clearForLease(job)
  job.ttlAt, job.countsAttempt, job.startedAt, job.attemptEndsAt = "", "1", "", ""
end

local function clearForPlace(job)
  job.ttlAt, job.keepsLane, job.leaseEndsAt, job.attemptEndsAt = "", "0", "", ""
end

local function clearForFinish(job)
  job.leaseEndsAt, job.attemptEndsAt = "", ""
end

local function clearForReplay(job)
  job.cancelAsked, job.endedAt, job.keepUntil, job.resultUntil, job.reason, job.result = "0", "", "", "", "", ""
end

M.inputAt, M.inputBytes, M.journalIn, M.newJob = inputAt, inputBytes, journalIn, newJob
M.withJournal, M.flagsOf, M.readSpec, M.readOwn = withJournal, flagsOf, readSpec, readOwn
M.readTail, M.tailText, M.headOf, M.specOf, M.readRest = readTail, tailText, headOf, specOf, readRest
M.readState, M.isOfFlow, M.restOf, M.stateOf, M.cutTimes = readState, isOfFlow, restOf, stateOf, cutTimes
M.fillEnding, M.fillFirst, M.sharedOf, M.readPlain = fillEnding, fillFirst, sharedOf, readPlain
M.keysIn, M.clearForLease, M.clearForPlace = keysIn, clearForLease, clearForPlace
M.clearForFinish, M.clearForReplay = clearForFinish, clearForReplay
end)
