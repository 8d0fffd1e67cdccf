/**
 * Rule R4 at one job, by the names of store/rules/flow/arrive.ts: the end of a member arrives at the target of an edge,
 * which it frees, or of which it makes known that it never can be. What is left to a duty becomes a due document.
 *
 *   arrive ──► judge ──► freed: placed and emitted (and deferred where it says so)
 *                    └─► slack below 0: deferred
 */
import { packText } from "../../../store/packing/packed-text.ts";
import { deferredPut } from "../../../store/rules/flow/arrive.ts";
import { docField } from "../jobs/submit-text.ts";
import { lua, luaText, luaModule } from "../library/lua.ts";

const { kind, body } = deferredPut("");

export const arriveLua = luaModule({
  name: "flows/arrive",
  takes: [
    "advance countEnd emit deleteJob isFlow isToFlow placeOf putDoc readFreed readWaits touch waitsText",
  ],
  gives: ["deferWork drop free arrive"],
  source: lua`
local DEFERRED, DEFERRED_BODY = ${luaText(docField(kind, "x").slice(0, -1))}, ${luaText(packText(body ?? ""))}

-- Deferred work: a due document under the job's id, put whatever is there.
local function deferWork(c, id) putDoc(c, DEFERRED .. id, "any", "+0", "", DEFERRED_BODY, "") end

-- A job leaves the store. A flow leaves its members to a duty.
local function drop(c, job)
  deleteJob(c, job)
  if isFlow(job) then deferWork(c, job.id) end
end

-- A blocked job that has no need left goes where its submit said. A flow stays: a duty decides about it.
local function free(c, job)
  if job.freed == "" then return end
  advance(job, placeOf(c, job, readFreed(job.freed)))
  emit(c, job, FREED)
end

-- What becomes of a blocked job that had so much need and slack left, and has these counts now.
local function judge(c, job, need, slack, waits)
  local isMet = need > 0 and waits.need <= 0
  if (slack >= 0 and waits.slack < 0) or (isMet and waits.defers == "1") then deferWork(c, job.id) end
  if isMet and waits.slack >= 0 then free(c, job) end
end

-- One end arrives at the target of an edge. Nothing comes of it where the target is not blocked, and is not the flow
-- that counts its members.
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
`,
});
