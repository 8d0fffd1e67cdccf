/**
 * Jobs in a call's own view: read from their texts, looked up by id, marked as changed, taken back where a unit is
 * refused.
 */

import { foreverMs } from "../../../model/limits/gate.ts";
import { lua, luaModule } from "../library/lua.ts";

export const jobLua = luaModule({
  name: "jobs/job",
  takes: ["change contentOf earliest fetch isTerminal meetUnreadable newJob NONE push readSpec readState"],
  gives: [
    "KEPT_FOREVER_AT isKeptUntil whereIs jobFrom loadJobs jobOf handleById jobById loadByIds",
    "touch deleteJob tailOf",
  ],
  source: lua`
local KEPT_FOREVER_AT = "${foreverMs}"

-- Whether a finished job stands in the index of those that go at a time of their own. One that is kept for ever, as
-- members are while their flow is there, would stand there for nothing.
local function isKeptUntil(at) return at ~= "" and at ~= KEPT_FOREVER_AT end

-- Where the indexes have a job: key, score, and its score among the clocks or "".
local function whereIs(k, job)
  local state = job.state
  if state == RUNNING then return k.lease, earliest(job.leaseEndsAt, job.attemptEndsAt, job.deadlineAt), "" end
  if isTerminal(state) then return nil, nil, "" end
  local clock = earliest(job.deadlineAt, job.ttlAt)
  if state == SUSPENDED then return clock ~= "" and k.wake or nil, clock, "" end
  if state == READY then return k.ready .. job.route, job.rank, clock end
  if state == SCHEDULED then
    return k.dueOf .. job.route, job.dueAt, clock == "" and "" or earliest(clock, job.dueAt)
  end
  return nil, nil, clock
end

-- As the job stands in the store: what is written in its place must first be taken out.
local function remember(k, job)
  local key, _, clock = whereIs(k, job)
  job.was = {
    h = job.h,
    key = key,
    clock = clock ~= "",
    keep = isKeptUntil(job.keepUntil),
    result = job.resultUntil ~= "",
    state = job.state,
    route = job.route,
    endedAt = job.endedAt,
    tags = job.tags,
    rank = job.rank,
    laneKey = job.laneKey,
    laneGates = job.laneGates,
    keepsLane = job.keepsLane,
  }
end

-- Reads a job, or answers nothing and why it cannot be read. alike: of jobs that are read together (packing.lua.ts).
local function readJob(c, h, spec, state, alike)
  local job = newJob()
  job.h, job.spec = h, spec
  if not spec then return nil, "it has a state and no spec" end
  if not readSpec(job, spec) then return nil, "its spec cannot be read" end
  local id, route = job.id, job.route
  if not state then
    job.state = tonumber(job.dueAt) <= tonumber(job.createdAt) and READY or SCHEDULED
  elseif not readState(job, state, alike) then
    return nil, "its state cannot be read"
  elseif job.id ~= id or job.route ~= route then
    return nil, "its state is that of another job"
  end
  if not contentOf(c, route) then return nil, "its queue and name are not known" end
  job.isKept = true
  return job
end

-- A job from its texts; false where there is none, and where it cannot be read (unreadable.lua.ts).
local function jobFrom(c, h, spec, state, alike)
  if not spec and not state then return false end
  local job, why = readJob(c, h, spec, state, alike)
  if job then return job end
  meetUnreadable(c, h, spec, state, why)
  return false
end

-- The jobs of these handles, from the call's own view; those that are not there are false in it. What a settle of this
-- call has ended as one of a set, or what its ends have arrived at, is not written yet, so its state is read from
-- there.
local function loadJobs(c, handles)
  local wanted = {}
  for _, h in ipairs(handles) do
    if h and c.jobs[h] == nil then
      wanted[#wanted + 1] = h
      c.jobs[h] = false
    end
  end
  if #wanted == 0 then return end
  if c.flush then c.flush(c) end
  local done = c.done or NONE
  local specs, states = fetch("HMGET", c.k.spec, wanted), fetch("HMGET", c.k.state, wanted)
  local alike = wanted[2] and {}
  for i, h in ipairs(wanted) do
    c.jobs[h] = jobFrom(c, h, specs[i], done[h] or states[i], alike)
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

local function jobById(c, id)
  local h = handleById(c, id)
  return h and jobOf(c, h)
end

-- The handles of those of these ids that are there, by one command for all of them.
local function handlesOf(c, ids)
  local wanted, handles = {}, {}
  for _, id in ipairs(ids) do
    local h = c.ids[id]
    if h == nil then
      wanted[#wanted + 1] = id
      c.ids[id] = false
    elseif h then
      handles[#handles + 1] = h
    end
  end
  for i, h in ipairs(fetch("HMGET", c.k.ids, wanted)) do
    c.ids[wanted[i]] = h
    if h then handles[#handles + 1] = h end
  end
  return handles
end

-- Brings the jobs of these ids into the call's view, by a few commands for all of them.
local function loadByIds(c, ids) loadJobs(c, handlesOf(c, ids)) end

-- Comes before every change of a job: what the store has of it is remembered while it stands so.
local function touch(c, job)
  if c.undo and not c.saved[job] then
    local copy = {}
    for field, value in pairs(job) do
      copy[field] = value
    end
    c.saved[job] = true
    push(c, "undo", function()
      for field in pairs(job) do
        job[field] = nil
      end
      for field, value in pairs(copy) do
        job[field] = value
      end
    end)
  end
  if not job.isDirty then
    if job.isKept then remember(c.k, job) end
    job.isDirty = true
    c.dirty[#c.dirty + 1] = job
  end
end

local function deleteJob(c, job)
  touch(c, job)
  job.isGone = true
  if handleById(c, job.id) == job.h then change(c, "ids", job.id, false) end
  c.jobs[job.h] = false
  if c.undo then push(c, "undo", function() c.jobs[job.h] = job end) end
end

local function tailOf(job)
  if not job.tail then job.tail = sub(job.spec, job.tailAt) end
  return job.tail
end
`,
});
