/**
 * Rule R4, by the names of store/rules: what the change of a member means to its flow and to those that wait for it.
 * Its end goes along its edges; a member that comes back departs from its flow and may wait for others again (block);
 * flows and their nodes grow.
 *
 *   follow ──► passOn ──► for each edge: arrive (arrive.lua.ts, or targets.lua.ts as a set)
 *     │          └─► more edges than one step takes: deferred for the member itself
 *     └──► depart
 */
import { lua, luaModule } from "../library/lua.ts";

export const passOnLua = luaModule({
  name: "flows/pass-on",
  takes: [
    "advance AT_ONCE clearForPlace clearPassedDeadline comeBack countEnd deferWork edgesOf",
    "endCounting goAlong hasChildren hasPassedOn idOfNode isFlow isMember isTerminal jobById loadByIds",
    "loadTargets passingOf PER_STEP placeOf readFreed readWaits RULES split tagsIn tailOf touch",
    "waitsText",
  ],
  gives: ["follow grow link"],
  source: lua`
-- What an end leads to comes into view, as whole jobs.
local function loadWhole(c, passing)
  local ids = {}
  for i, edge in ipairs(passing.edges) do
    local id = idOfNode(passing.flow, edge)
    ids[i], passing[i] = id, { id = id }
  end
  loadByIds(c, ids)
end

-- The end of a member goes along its next N edges (most); the others are deferred.
local function passOn(c, job, most)
  local waits = readWaits(job.waits)
  local passing = passingOf(c, job.flow, job.edges, waits.passed, most)
  touch(c, job)
  waits.passed = passing.to
  job.waits = waitsText(waits)
  if c.targets then endCounting(c) end
  -- What may be taken back is done to whole jobs.
  if c.targets and not c.undo then
    loadTargets(c, { passing })
  else
    loadWhole(c, passing)
  end
  goAlong(c, passing, job.id, job.state)
end

-- A member that had ended comes back: its flow counts it among the living again.
local function depart(c, job, ended)
  local flow = jobById(c, job.flow)
  if not flow or flow.waits == "" then return end
  touch(c, flow)
  local waits = readWaits(flow.waits)
  countEnd(waits, edgesOf(job)[1], ended, -1)
  flow.waits = waitsText(waits)
end

-- What a change of a job means to its flow, and the end of a durable run to what it has started, after everything else
-- of its unit. from: the state before it.
local function follow(c, job, from, next)
  if hasChildren(job) and (job.isGone or isTerminal(job.state) and not isTerminal(from)) then deferWork(c, job.id) end
  if job.waits == "" then return end
  if job.isGone then
    if isFlow(job) then deferWork(c, job.id) end
  elseif job.flow ~= "" and isTerminal(job.state) then
    if not isTerminal(from) then
      passOn(c, job, AT_ONCE)
    elseif next.passesOn ~= "" then
      passOn(c, job, min(tonumber(next.passesOn), PER_STEP))
    end
  elseif job.flow ~= "" and isTerminal(from) then
    depart(c, job, from)
  end
end

-- The state in which a parent has ended and come along its edge to this job; nothing where it has yet to come.
local function arrivedFrom(parent, id)
  -- A parent that is gone counts as one that never ran.
  if not parent then return SKIPPED end
  if not isTerminal(parent.state) or parent.waits == "" then return nil end
  local passed, flow = readWaits(parent.waits).passed, parent.flow == "" and parent.id or parent.flow
  for i, edge in ipairs(edgesOf(parent)) do
    if idOfNode(flow, edge) == id then return i <= passed and parent.state or nil end
  end
  return parent.state
end

-- The counts of a job that is blocked anew: those of its parents that have ended arrive at once.
local function countAnew(c, job, next)
  local waits, parents, ids = readWaits(job.waits), tagsIn(next.parents), {}
  if next.need ~= "" then
    waits.need, waits.slack = tonumber(next.need), tonumber(next.slack)
  end
  waits.passed = 0
  for i, edge in ipairs(parents) do
    ids[i] = sub(edge, 3)
  end
  loadByIds(c, ids)
  for i, edge in ipairs(parents) do
    local ended = arrivedFrom(jobById(c, ids[i]), job.id)
    if ended then countEnd(waits, edge, ended, 1) end
  end
  return waits
end

-- A finished member waits for others again, or a blocked one is counted anew; it may be freed at once.
function RULES.block(c, job, next)
  local waits = countAnew(c, job, next)
  local isFreed = job.freed ~= "" and waits.need <= 0 and waits.slack >= 0
  if isTerminal(job.state) then
    clearForPlace(job)
    comeBack(c, job)
    clearPassedDeadline(c, job)
  end
  job.waits, job.countsAttempt, job.ttlAt = waitsText(waits), "1", ""
  if next.attempt ~= "" then job.attempt = tonumber(next.attempt) end
  advance(job, isFreed and placeOf(c, job, readFreed(job.freed)) or BLOCKED)
  -- A flow that goes on from where it stands may be decided already.
  local isDecided = job.freed == "" and waits.need <= 0
  if waits.slack < 0 or isDecided or isFreed and waits.defers == "1" then deferWork(c, job.id) end
end

-- A flow, or a node of it, waits for more. Answers false where it cannot any more.
local function grow(c, id, need, slack, members)
  local job = jobById(c, id)
  if not job or job.state ~= BLOCKED or job.cancelAsked == "1" or job.waits == "" then return false end
  touch(c, job)
  local waits = readWaits(job.waits)
  waits.need, waits.slack = waits.need + need, waits.slack + slack
  if waits.members ~= "" then
    local counts = split(waits.members, ",")
    counts[2] = counts[2] + members
    waits.members = concat(counts, ",")
  end
  job.waits = waitsText(waits)
  return true
end

-- A member has one edge more; where its end has gone along all others, it goes along this one at once. Answers false
-- where there is no such member.
local function link(c, from, edge)
  local job = jobById(c, from)
  if not job or not isMember(job) then return false end
  local isThrough = isTerminal(job.state) and hasPassedOn(job)
  touch(c, job)
  job.edges = job.edges == "" and edge or job.edges .. RS .. edge
  tailOf(job)
  job.isRewritten = true
  if isThrough then passOn(c, job, 1) end
  return true
end
`,
});
