/**
 * A job as the functions read and change it: its two records, where it stands in the indexes, and the rules that move one job (R1, R3, R8).
 * Numbers stay the texts they were stored as, so that nothing is rounded; "" is none.
 *
 *  spec    flags US id US route US created US due US rank US deadline US ttl US key US hold US digest US tags US policy US meta US input
 *  state   status fence US id US rev US settled US flags US route US attempt US counts US cancel US due US rank US deadline US ttl US owner US
 *          claimed US started US lease US ends US ended US keep US reason US result US log US progress
 *
 * flags: p for nothing special, else u unique, g tags, c clocks (spec only), l log lines (state only). settled "=" is the fence itself.
 * In a spec, due "" is created and rank "" is due: 26 bytes less for most jobs. In a state, due, rank and deadline "" are those of the spec, and
 * deadline "-" is none.
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { fields } from "./base.ts";

export const jobLua = String.raw`
local SPEC = "^${fields(12)}()"
local STATE = "^(.)${fields(23)}([^\31]*)$"
local TAIL = "^([^\31]*)\31([^\31]*)\31()"

local function isTerminal(status) return status >= COMPLETED end

-- Where the indexes have a job: key, score, and its score among the clocks or "".
local function placeOf(k, job)
  local status = job.status
  if status == READY then return k.ready .. job.route, job.rank, earliest(job.deadline, job.ttl) end
  if status == RUNNING then return k.lease, earliest(job.lease, job.ends, job.deadline), "" end
  if status ~= SCHEDULED then return nil, nil, "" end
  local clock = earliest(job.deadline, job.ttl)
  return k.due, job.due, clock == "" and "" or earliest(clock, job.due)
end

local function remember(k, job)
  local key, _, clock = placeOf(k, job)
  job.was = { key = key, clock = clock ~= "", keep = job.keep ~= "", status = job.status, route = job.route, ended = job.ended, tags = job.tags }
end

local function readJob(k, h, spec, state)
  local job = { h = h, spec = spec }
  job.flags, job.id, job.route, job.created, job.due, job.rank, job.deadline, job.ttl, job.key, job.hold, job.digest, job.tags, job.tailAt = match(spec, SPEC)
  if job.due == "" then job.due = job.created end
  if job.rank == "" then job.rank = job.due end
  if state then
    local flags, due, rank, deadline, rev, attempt, _
    job.status, job.fence, _, rev, job.settled, flags, job.route, attempt, job.counts, job.cancel, due, rank, deadline, job.ttl, job.owner, job.claimed,
      job.started, job.lease, job.ends, job.ended, job.keep, job.reason, job.result, job.log, job.progress = match(state, STATE)
    job.rev, job.attempt = tonumber(rev), tonumber(attempt)
    job.hasLines = find(flags, "l", 1, true) ~= nil
    if job.settled == "=" then job.settled = job.fence end
    if due ~= "" then job.due = due end
    if rank ~= "" then job.rank = rank end
    if deadline ~= "" then job.deadline = deadline == "-" and "" or deadline end
  else
    job.status = tonumber(job.due) <= tonumber(job.created) and READY or SCHEDULED
    job.fence, job.rev, job.settled, job.attempt, job.counts, job.cancel = "0", 1, "", 0, "1", "0"
    job.owner, job.claimed, job.started, job.lease, job.ends, job.ended = "", "", "", "", "", ""
    job.keep, job.reason, job.result, job.log, job.progress = "", "", "", "", ""
  end
  remember(k, job)
  return job
end

local function letters(job, more)
  local flags = (job.key ~= "" and "u" or "") .. (job.tags ~= "" and "g" or "") .. more
  return flags == "" and "p" or flags
end

local function stateOf(job)
  return concat({
    job.status .. job.fence, job.id, job.rev, job.settled == job.fence and "=" or job.settled, letters(job, job.hasLines and "l" or ""), job.route, job.attempt,
    job.counts, job.cancel, job.due, job.rank, job.deadline == "" and "-" or job.deadline, job.ttl, job.owner, job.claimed, job.started, job.lease, job.ends,
    job.ended, job.keep, job.reason, job.result, job.log, job.progress,
  }, US)
end

local function specOf(job)
  local clocks = (job.deadline ~= "" or job.ttl ~= "") and "c" or ""
  local due, rank = job.due ~= job.created and job.due or "", job.rank ~= job.due and job.rank or ""
  return concat({ letters(job, clocks), job.id, job.route, job.created, due, rank, job.deadline, job.ttl, job.key, job.hold, job.digest, job.tags, job.tail }, US)
end

-- The jobs of these handles, from the call's own view; those that are not there are left out of it.
local function loadJobs(c, handles)
  local wanted = {}
  for _, h in ipairs(handles) do
    if h and c.jobs[h] == nil then
      wanted[#wanted + 1] = h
      c.jobs[h] = false
    end
  end
  if #wanted == 0 then return end
  local specs, states = fetch("HMGET", c.k.spec, wanted), fetch("HMGET", c.k.state, wanted)
  for i, h in ipairs(wanted) do
    if specs[i] then c.jobs[h] = readJob(c.k, h, specs[i], states[i]) end
  end
end

local function jobOf(c, h)
  if c.jobs[h] == nil then loadJobs(c, { h }) end
  return c.jobs[h] or nil
end

local function handleById(c, id)
  local h = c.ids[id]
  if h == nil then
    h = call("HGET", c.k.ids, id)
    c.ids[id] = h
  end
  return h or nil
end

local function setId(c, id, h)
  local old = handleById(c, id) or false
  c.ids[id] = h
  c.idsDirty[id] = true
  if c.undo then c.undo[#c.undo + 1] = function() c.ids[id] = old end end
end

local function touch(c, job)
  if c.undo and not c.saved[job] then
    local copy = {}
    for field, value in pairs(job) do copy[field] = value end
    c.saved[job] = true
    c.undo[#c.undo + 1] = function()
      for field in pairs(job) do job[field] = nil end
      for field, value in pairs(copy) do job[field] = value end
    end
  end
  if not job.dirty then
    job.dirty = true
    c.dirty[#c.dirty + 1] = job
  end
end

-- The holder of a key, or nothing; one whose time is over counts as nobody.
local function holderOf(c, key)
  local entry = c.uniq[key]
  if entry == nil then
    entry = false
    local text = call("HGET", c.k.uniq, key)
    if text then
      local h, hold, till, id = unpack(split(text, US))
      entry = { h = h, hold = hold, till = till, id = id }
    end
    c.uniq[key] = entry
  end
  return entry or nil
end

local function isHeld(c, entry) return entry ~= nil and (entry.till == "" or tonumber(entry.till) > c.now) end

local function setHolder(c, key, entry)
  local old = holderOf(c, key) or false
  c.uniq[key] = entry
  c.uniqDirty[key] = true
  if c.undo then c.undo[#c.undo + 1] = function() c.uniq[key] = old end end
end

local function takeKey(c, job, hold)
  job.hold = hold
  local isTimed = hold ~= "s" and hold ~= "e"
  setHolder(c, job.key, { h = job.h, hold = hold, till = isTimed and num(c.now + hold) or "", id = job.id })
end

-- holds: which kinds of holding end now: "s" started, "e" end, "t" by time.
local function freeKey(c, job, holds)
  if job.key == "" then return end
  local entry = holderOf(c, job.key)
  if not entry or entry.h ~= job.h then return end
  local kind = (entry.hold == "s" or entry.hold == "e") and entry.hold or "t"
  if find(holds, kind, 1, true) then setHolder(c, job.key, false) end
end

-- status "" once removed.
local function tell(c, job, kind, status)
  job.rev = job.rev + 1
  local extra = ""
  if status == "" then extra = ""
  elseif isTerminal(status) then extra = job.reason == "" and "" or "s" .. job.reason
  elseif status == SCHEDULED then extra = "n" .. job.due
  elseif status == RUNNING and job.cancel == "1" and kind ~= "${eventCodes.claimed}" then extra = "s" .. job.owner end
  tellGroup(c, concat({ kind, job.rev, job.route, status, job.attempt, extra }, US), job.id, kind, status, extra)
end

local function move(c, job, to, kind)
  assert(ARROWS[job.status .. to], "MRARROW a job cannot move from state " .. job.status .. " to " .. to)
  job.status = to
  if to ~= RUNNING then job.lease, job.ends = "", "" end
  tell(c, job, kind, to)
end

local function placeJob(c, job, due, base, slope, ttl)
  local at = instant(c, due)
  job.due, job.rank = num(at), num(base + slope * at)
  job.ttl = ttl == "" and "" or num(at + ttl)
end

local function waitingStatus(c, job) return tonumber(job.due) <= c.now and READY or SCHEDULED end

local function dropJob(c, job)
  touch(c, job)
  job.dropped = true
  if handleById(c, job.id) == job.h then setId(c, job.id, false) end
  c.jobs[job.h] = false
  if c.undo then c.undo[#c.undo + 1] = function() c.jobs[job.h] = job end end
end

local function tailOf(job)
  if not job.tail then job.tail = sub(job.spec, job.tailAt) end
  return job.tail
end

-- which: letters of what is given: i input, p policy, m meta.
local function editJob(job, which, input, policy, meta)
  if which == "" then return end
  local tail = tailOf(job)
  local oldPolicy, oldMeta, at = match(tail, TAIL)
  if not find(which, "p", 1, true) then policy = oldPolicy end
  if not find(which, "m", 1, true) then meta = oldMeta end
  if not find(which, "i", 1, true) then input = sub(tail, at) end
  job.tail = policy .. US .. meta .. US .. input
  job.isRewritten = true
end

-- Applies what the model computed; n is the next step, split (next.ts). Guards were checked.
local function apply(c, job, n)
  touch(c, job)
  local to, kind = n[1], n[2]
  if to == "R" then
    job.counts = n[3]
    move(c, job, READY, kind)
  elseif to == "S" then
    if isTerminal(job.status) then
      job.ended, job.reason, job.result, job.keep, job.cancel = "", "", "", "", "0"
      if job.deadline ~= "" and tonumber(job.deadline) <= c.now then job.deadline = "" end
      if job.hold == "e" then takeKey(c, job, "e") end
    end
    placeJob(c, job, n[3], n[4], n[5], n[7])
    editJob(job, n[9], n[10], n[11], n[12])
    job.counts = n[6]
    if n[8] ~= "" then job.attempt = tonumber(n[8]) end
    move(c, job, waitingStatus(c, job), kind)
  elseif to == "M" then
    if n[3] ~= "" then job.cancel = n[3] end
    if n[4] ~= "" or n[5] ~= "" then job.rank = num((n[4] == "" and 0 or n[4]) + (n[5] == "" and 1 or n[5]) * job.due) end
    editJob(job, n[6], n[7], n[8], n[9])
    tell(c, job, kind, job.status)
  elseif to == "X" then
    freeKey(c, job, "set")
    tell(c, job, kind, "")
    dropJob(c, job)
  else
    job.ended, job.keep, job.reason, job.result = c.at, after(c, n[3]), n[4], n[5]
    freeKey(c, job, "se")
    move(c, job, to, kind)
    if n[3] == "0" then dropJob(c, job) end
  end
end
`;
