/**
 * Rule R4, by the names of store/rules/arrive.ts and block.ts: the end of a member of a flow goes along its edges and
 * arrives at others, which it frees, or of which it makes known that they never can be; a member that comes back departs
 * from its flow and may wait for others again; flows and their nodes grow. What is left to a duty becomes a due document.
 *
 *   follow ──► passOn ──► for each edge: arrive ──► freed: placed and told (and owed where it says so)
 *     │          │                              └─► slack below 0: owed
 *     │          └─► more edges than one step takes: owed for the member itself
 *     └──► depart
 */
import { packText } from "../../../store/packed-text.ts";
import { storeLimits } from "../../../store/limits.ts";
import { owedPut } from "../../../store/rules/arrive.ts";
import { docField } from "../submit-text.ts";
import { luaText } from "./lua-module.ts";

const { kind, body } = owedPut("");

export const arriveLua = String.raw`
local AT_ONCE, PER_STEP = ${storeLimits.edgesAtOnceMax}, ${storeLimits.edgesPerStepMax}
local OWED, OWED_BODY = ${luaText(docField(kind, "x").slice(0, -1))}, ${luaText(packText(body ?? ""))}

-- Owed work: a due document under the job's id, put whatever is there.
local function owe(c, id) putDoc(c, OWED .. id, "any", "+0", "", OWED_BODY, "") end

-- A job leaves the store. A flow leaves its members to a duty.
local function drop(c, job)
  forget(c, job)
  if isFlow(job) then owe(c, job.id) end
end

-- Flows that only count ends are not read whole: a call has their states and where their waits stand in them, by handle.
local function loadCounting(c, ids)
  local wanted, counting = {}, c.counting or {}
  for _, h in ipairs(handlesOf(c, ids)) do
    if c.jobs[h] == nil and not counting[h] then wanted[#wanted + 1] = h end
  end
  for i, text in ipairs(fetch("HMGET", c.k.state, wanted)) do
    local from, to = waitsIn(text or "")
    local waits = from and sub(text, from, to - 1)
    if waits and find(waits, "^%-?%d+,%-?%d+,%d+,%d,") then
      counting[wanted[i]] = { text = text, from = from, to = to, waits = waits, isBlocked = sub(text, 1, 1) == BLOCKED }
    end
  end
  c.counting = counting
end

-- What the ends of these jobs arrive at comes into view, by a few commands for all of them.
local function loadTargets(c, jobs)
  local ids, flows = {}, {}
  for _, job in ipairs(jobs) do
    if isMember(job) then
      local edges, passed = edgesOf(job), readWaits(job.waits).passed
      for i = passed + 1, min(#edges, passed + AT_ONCE) do
        local list = HAS_PLAIN_ROADS and isToFlow(edges[i]) and flows or ids
        list[#list + 1] = idOfNode(job.flow, edges[i])
      end
    end
  end
  loadByIds(c, ids)
  loadCounting(c, flows)
end

-- An end is counted at a flow of which only the waits were read. Answers false where it must be read whole: it may be freed
-- by this end, somebody has it in view, or what is done may be taken back.
local function countAt(c, h, edge, ended)
  local flow = c.counting and c.counting[h]
  if not flow or c.undo or c.jobs[h] ~= nil then return false end
  local waits = readWaits(flow.waits)
  local need, slack = waits.need, waits.slack
  countEnd(waits, edge, ended, 1)
  if flow.isBlocked and need > 0 and waits.need <= 0 then return false end
  if flow.isBlocked and slack >= 0 and waits.slack < 0 then return false end
  flow.waits = waitsText(waits)
  c.done[h] = sub(flow.text, 1, flow.from - 1) .. flow.waits .. sub(flow.text, flow.to)
  return true
end

-- What was counted so is written; a flow that was read whole later is written behind it.
local function writeCounting(c)
  for h in pairs(c.counting) do
    if c.done[h] then push2(c, "states", h, c.done[h]) end
  end
  c.counting = nil
end

-- What becomes of a blocked job that had so much need and slack left, and has these counts now.
local function judge(c, job, need, slack, waits)
  local isMet = need > 0 and waits.need <= 0
  if (slack >= 0 and waits.slack < 0) or (isMet and waits.owes == "1") then owe(c, job.id) end
  if not isMet or waits.slack < 0 or job.freed == "" then return end
  advance(job, placeOf(c, job, readFreed(job.freed)))
  tell(c, job, FREED)
end

-- One end arrives at the target of an edge. Nothing comes of it where the target is not blocked, and is not the flow that
-- counts its members.
local function arrive(c, target, edge, ended)
  local isBlocked = target.state == BLOCKED
  if target.waits == "" or not (isBlocked or isToFlow(edge)) then return end
  touch(c, target)
  local waits = readWaits(target.waits)
  local need, slack = waits.need, waits.slack
  countEnd(waits, edge, ended, 1)
  target.waits = waitsText(waits)
  if isBlocked then judge(c, target, need, slack, waits) end
end

-- The end of a member goes along its next edges, up to so many; the rest is owed.
local function passOn(c, job, most)
  local edges, waits, ids, targets = edgesOf(job), readWaits(job.waits), {}, {}
  local from, to = waits.passed, min(#edges, waits.passed + most)
  for i = from + 1, to do
    local id = idOfNode(job.flow, edges[i])
    ids[i] = id
    if not isToFlow(edges[i]) then targets[#targets + 1] = id end
  end
  loadByIds(c, targets)
  touch(c, job)
  waits.passed = to
  job.waits = waitsText(waits)
  for i = from + 1, to do
    local h, edge = handleById(c, ids[i]), edges[i]
    if h and not (isToFlow(edge) and countAt(c, h, edge, job.state)) then
      local target = jobOf(c, h)
      if target then arrive(c, target, edge, job.state) end
    end
  end
  if to < #edges then owe(c, job.id) end
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

-- What a change of a job means to its flow, behind everything else of its unit. from: the state before it.
local function follow(c, job, from, next)
  if job.waits == "" then return end
  if job.isGone then
    if isFlow(job) then owe(c, job.id) end
  elseif job.flow ~= "" and isTerminal(job.state) then
    if not isTerminal(from) then passOn(c, job, AT_ONCE) elseif next.passesOn == "1" then passOn(c, job, PER_STEP) end
  elseif job.flow ~= "" and isTerminal(from) then depart(c, job, from) end
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
  if next.need ~= "" then waits.need, waits.slack = tonumber(next.need), tonumber(next.slack) end
  waits.passed = 0
  for i, edge in ipairs(parents) do ids[i] = sub(edge, 3) end
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
  end
  job.waits, job.countsAttempt, job.ttlAt = waitsText(waits), "1", ""
  if next.attempt ~= "" then job.attempt = tonumber(next.attempt) end
  advance(job, isFreed and placeOf(c, job, readFreed(job.freed)) or BLOCKED)
  -- A flow that goes on from where it stands may be decided already.
  local isDecided = job.freed == "" and waits.need <= 0
  if waits.slack < 0 or isDecided or isFreed and waits.owes == "1" then owe(c, job.id) end
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

-- A member has one edge more; where its end has gone along all others, it goes along this one at once. Answers false where
-- there is no such member.
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
`;
