/**
 * What rule R4 reads of a job: the texts of model/flow (waits, edges, freed), and whether the job makes part of a flow, is
 * one, waits for others, or has passed on its end (store/rules/member.ts).
 */
import { bitOfEnd } from "../../../model/flow/edge.ts";
import { stateCodes, terminalStates } from "../../../model/job-state.ts";
import { luaConstant } from "./lua-module.ts";

const byEnd = (valueOf: (code: number) => number): string =>
  terminalStates.map((end) => `[${luaConstant(end)}] = ${valueOf(stateCodes[end])}`).join(", ");

export const flowPackingLua = String.raw`
-- By the end of a member: its bit in the masks of an edge, and its place among the counts of a flow, which are
-- "", total and one for each end.
local BIT = { ${byEnd(bitOfEnd)} }
local COUNT_AT = { ${byEnd((code) => code - stateCodes.completed + 3)} }

-- members: of a flow, a comma and its counts as they stand in the text; "" of any other.
local function readWaits(text)
  local need, slack, passed, owes, members = match(text, "^(%-?%d+),(%-?%d+),(%d+),(%d)(.*)$")
  return { need = tonumber(need), slack = tonumber(slack), passed = tonumber(passed), owes = owes, members = members }
end

local function waitsText(w)
  return w.need .. "," .. w.slack .. "," .. w.passed .. "," .. w.owes .. w.members
end

-- The waits of a finished job that comes back.
local function unpassed(text)
  local waits = readWaits(text)
  waits.passed = 0
  return waitsText(waits)
end

-- Whether a mask of an edge, one digit of 32, has the bit of an end.
local function hasBit(mask, ended) return floor(tonumber(mask, 32) / BIT[ended]) % 2 == 1 end

-- An edge is two masks (what it meets, what it misses) and the name of its target; none is the flow itself.
local function isToFlow(edge) return #edge == 2 end

local function idOfNode(flow, edge) return isToFlow(edge) and flow or flow .. "." .. sub(edge, 3) end

local function edgesOf(job) return job.edges == "" and NONE or split(job.edges, RS) end

-- With one end more (by: 1) or less (-1) that came along this edge. Only the edge to a flow tells it how its members ended.
local function countEnd(waits, edge, ended, by)
  if hasBit(sub(edge, 1, 1), ended) then waits.need = waits.need - by end
  if hasBit(sub(edge, 2, 2), ended) then waits.slack = waits.slack - by end
  if waits.members == "" or not isToFlow(edge) then return end
  local counts, at = split(waits.members, ","), COUNT_AT[ended]
  counts[at] = counts[at] + by
  waits.members = concat(counts, ",")
end

-- Where a job goes once it is freed, as placeOf (rules.ts) is asked.
local function readFreed(text)
  local mark, due, rankBase, rankSlope, ttlMs = match(text, "^(.)([^,]*),([^,]*),([^,]*),(.*)$")
  return { due = (mark == "@" and "=" or "+") .. due, rankBase = rankBase, rankSlope = rankSlope, ttlMs = ttlMs }
end

-- A member of a flow. A template has no flow of its own, and no waits either.
local function isMember(job) return job.waits ~= "" and job.flow ~= "" end

-- A flow, of which others make part; it may be a member itself.
local function isFlow(job) return job.waits ~= "" and readWaits(job.waits).members ~= "" end

local function isBornBlocked(job)
  return job.waits ~= "" and (job.freed == "" or readWaits(job.waits).need > 0)
end

-- Whether the end of a member has gone along all its edges; true of any other job.
local function hasPassedOn(job)
  return job.waits == "" or readWaits(job.waits).passed >= #edgesOf(job)
end
`;
