/**
 * What rule R4 reads of a job: the texts of model/flow (waits, edges, freed), and whether the job makes part of a flow,
 * is one, waits for others, or has passed on its end (store/rules/flow/member.ts).
 */
import { bitOfEnd } from "../../../model/flow/edge.ts";
import { stateCodes, terminalStates } from "../../../model/job/job-state.ts";
import { flags, headFields, ownFields, restFields, specFields } from "../packing/packed-fields.ts";
import { lua, luaConstant, luaModule } from "../library/lua.ts";
import { captured, fieldsPattern, patternOf, pickPattern, skipped } from "../packing/lua-fields.ts";

const byEnd = (valueOf: (code: number) => number): string =>
  terminalStates.map((end) => `[${luaConstant(end)}] = ${valueOf(stateCodes[end])}`).join(", ");

/** The flags of a job of a flow that has tags and nothing else beyond it. */
const usualFlags = `[${flags.tags}${flags.rare}${flags.flow}]+`;
/** The spec of such a job: flags, id, route, due time, flow, edges, waits, and where its tail begins. */
const memberPattern = patternOf([...headFields, ...ownFields], {
  ...{ flags: `(${usualFlags})`, id: captured, createdAt: "%d+", route: captured },
  ...{ dueAt: "(%-?%d*)", rank: "%-?%d*", deadlineAt: "", ttlAt: "" },
  ...{ flow: captured, edges: captured, waits: captured },
});
/** Of a state after its id, where the waits begin and where they end. */
const waitsPattern = fieldsPattern(
  restFields.slice(0, restFields.indexOf("waits")).map(() => skipped),
  { before: String.raw`\31`, after: `()${skipped}()` },
);

export const flowPackingLua = luaModule({
  name: "flows/flow-packing",
  takes: ["inputAt newList NONE split"],
  gives: [
    "COUNT_AT readWaits waitsText withPassed hasBit isToFlow idOfNode edgesOf countEnd",
    "usesOfFlow edgesInUses freedInUses readFreed isMember isFlow isBornBlocked hasPassedOn",
    "edgesIn hasUsualFlags readMember waitsInRest headIn",
  ],
  source: lua`
-- Of a member's spec: flow and edges; all of it, as readMember answers it; and where the waits begin in the rest of a
-- state, and where they end.
local EDGES = ${pickPattern(["flow", "edges"], specFields)}
local MEMBER = ${memberPattern}
local WAITS = ${waitsPattern}

-- By the end of a member: its bit in the masks of an edge, and its place among the counts of a flow, which are
-- "", total and one for each end.
local BIT = { ${byEnd(bitOfEnd)} }
local COUNT_AT = { ${byEnd((code) => code - stateCodes.completed + 3)} }

-- members: of a flow, a comma and its counts as they stand in the text; "" of any other.
local function readWaits(text)
  local need, slack, passed, defers, members = match(text, "^(%-?%d+),(%-?%d+),(%d+),(%d)(.*)$")
  return {
    need = tonumber(need),
    slack = tonumber(slack),
    passed = tonumber(passed),
    defers = defers,
    members = members,
  }
end

local function waitsText(w) return w.need .. "," .. w.slack .. "," .. w.passed .. "," .. w.defers .. w.members end

-- The waits of a job whose end has gone along N edges (passed): 0 for a job that comes back.
local function withPassed(text, passed)
  local waits = readWaits(text)
  waits.passed = passed
  return waitsText(waits)
end

-- By mask and end, what was asked before.
local hits = {}
-- Whether a mask of an edge, one digit of 32, has the bit of an end.
local function hasBit(mask, ended)
  local ofMask = hits[mask] or newList(hits, mask)
  local hit = ofMask[ended]
  if hit == nil then
    hit = floor(tonumber(mask, 32) / BIT[ended]) % 2 == 1
    ofMask[ended] = hit
  end
  return hit
end

-- An edge is two masks (what it meets, what it misses) and the name of its target; none is the flow itself.
local function isToFlow(edge) return #edge == 2 end

local function idOfNode(flow, edge) return isToFlow(edge) and flow or flow .. "." .. sub(edge, 3) end

local function edgesOf(job) return job.edges == "" and NONE or split(job.edges, RS) end

-- With one end more (by: 1) or less (-1) that came along this edge. Only the edge to a flow says how its members
-- ended.
local function countEnd(waits, edge, ended, by)
  if hasBit(sub(edge, 1, 1), ended) then waits.need = waits.need - by end
  if hasBit(sub(edge, 2, 2), ended) then waits.slack = waits.slack - by end
  if waits.members == "" or not isToFlow(edge) then return end
  local counts, at = split(waits.members, ","), COUNT_AT[ended]
  counts[at] = counts[at] + by
  waits.members = concat(counts, ",")
end

-- Longer edges stay in the spec alone: whatever writes a running job would write them too.
local EDGES_USED_MAX = 256

local function usesOfEdges(flow, edges)
  return flow ~= "" and #edges <= EDGES_USED_MAX and RS .. flow .. RS .. edges or ""
end

-- What the next step of a job of a flow uses of its spec: the end of a running one the gates of its lane, else its flow
-- and its edges; of a blocked one its due time and rank there, and where it goes when freed.
local function usesOfFlow(job)
  if job.state == RUNNING then return job.laneGates ~= "" and job.laneGates or usesOfEdges(job.flow, job.edges) end
  if job.state ~= BLOCKED or job.freed == "" then return "" end
  return job.specDueAt .. RS .. (job.specRank == job.specDueAt and "" or job.specRank) .. RS .. job.freed
end

-- Flow and edges of the uses of a running member; nothing where these are others.
local function edgesInUses(uses) return match(uses, "^\30([^\30]*)\30(.*)$") end

-- The uses of a blocked job: due time and rank of its spec, and where it goes when freed.
local function freedInUses(uses)
  local dueAt, rank, freed = match(uses, "^([^\30]*)\30([^\30]*)\30(.*)$")
  return dueAt, rank == "" and dueAt or rank, freed
end

-- Where a job goes once it is freed, as placeOf (rules.lua.ts) is asked.
local function readFreed(text)
  local mark, due, rankBase, rankSlope, ttlMs = match(text, "^(.)([^,]*),([^,]*),([^,]*),(.*)$")
  return { due = mark .. due, rankBase = rankBase, rankSlope = rankSlope, ttlMs = ttlMs }
end

-- A member of a flow. A template has no flow of its own, and no waits either.
local function isMember(job) return job.waits ~= "" and job.flow ~= "" end

-- A flow, of which others make part; it may be a member itself.
local function isFlow(job) return job.waits ~= "" and readWaits(job.waits).members ~= "" end

local function isBornBlocked(job) return job.waits ~= "" and (job.freed == "" or readWaits(job.waits).need > 0) end

-- Whether the end of a member has gone along all its edges; true of any other job.
local function hasPassedOn(job) return job.waits == "" or readWaits(job.waits).passed >= #edgesOf(job) end

-- Flow and edges of a spec; nothing where it has none.
local function edgesIn(spec)
  local flow, edges = match(spec, EDGES)
  return flow, edges
end

-- Whether a job of a flow has tags and nothing else beyond it.
local function hasUsualFlags(flags) return find(flags, "^${usualFlags}$") end

-- Flags, id, due time, flow, waits and uses of a job of a flow and of a route that has tags and nothing else beyond it,
-- and where its input begins; nothing for others.
local function readMember(spec, route)
  if not spec then return nil end
  local flags, id, own, dueAt, flow, edges, waits, tail = match(spec, MEMBER)
  local input = tail and own == route and waits ~= "" and inputAt(spec, tail)
  if input then return flags, id, dueAt, flow, waits, usesOfEdges(flow, edges), input end
end

-- Of a state after its id, where its waits begin and what is after them.
local function waitsInRest(rest) return match(rest, WAITS) end

-- State, fence and id of a state of this id.
local function headIn(state, id)
  local at = match(state, "^[^\31]*\31[^\31]*\31()")
  return at and find(state, id, at, true) == at and sub(state, 1, at + #id - 1) or nil
end
`,
});
