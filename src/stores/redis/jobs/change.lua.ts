/**
 * change: what operators and duties do to a job under a guard (R2). The first case whose guard holds is applied.
 *
 *  args     jobs, their ids, then per change: its token ("" for none), number of cases, and per case: guard and next
 *           (argument-text.ts), attempt log ("" leaves it), what is appended to the journal ("" for nothing)
 *  answer   own hints, then per change: ok US case US from US state US rev, already, changed, repeated or full US state
 *           US rev, key-held US id, or gone
 */
import { lua, luaModule } from "../library/lua.ts";
import { captured, fieldsPattern, skipped } from "../packing/lua-fields.ts";
import { argumentFields } from "../packing/argument-text.ts";

const { append } = argumentFields;
const keyOfAppend = fieldsPattern([...append.slice(0, append.indexOf("key")).map(() => skipped), captured]);

export const changeLua = luaModule({
  name: "jobs/change",
  takes: [
    "appendEntry apply fetch follow FREES handleById hasPassedOn isFull isHeld isKnownKey isTerminal",
    "jobOf leaveTargets loadJobs nextArg nextNumber readFields serve takerOf takeTargets touch WRITES",
    "writeCall",
  ],
  source: lua`
local CASE_ARGS, KEY_OF_APPEND = 4, ${keyOfAppend}

-- The journal knows the key of an entry of one of these cases, which mostly have the same.
local function isRepeated(c, job, cases)
  local last
  for n = 0, cases - 1 do
    local append = c.args[c.i + n * CASE_ARGS + CASE_ARGS - 1]
    local key = append ~= "" and match(append, KEY_OF_APPEND)
    if key and key ~= last and isKnownKey(c, job, key) then return true end
    last = key
  end
  return false
end

-- Why a finished job cannot come back: its end has not gone along all its edges, or another job holds the key that it
-- has to take.
local function replayRefusal(c, job, next)
  if not isTerminal(job.state) or not (next.kind == "schedule" or next.kind == "block") then return nil end
  if not hasPassedOn(job) then return concat({ "changed", job.state, job.rev }, US) end
  local taker = job.uniqueHold == HOLD_END and takerOf(c, job.uniqueKey)
  return taker and "key-held" .. US .. taker.id
end

local function changeOne(c, id)
  local token, cases, h, answer = nextArg(c), nextNumber(c), handleById(c, id), nil
  local job = h and jobOf(c, h)
  if job and isRepeated(c, job, cases) then answer = concat({ "repeated", job.state, job.rev }, US) end
  for n = 0, cases - 1 do
    local guard, next, attempts, append = nextArg(c), nextArg(c), nextArg(c), nextArg(c)
    if job and not answer and isHeld(c, readFields(guard, "guard"), job) then
      next, append = readFields(next), append ~= "" and readFields(append, "append")
      local from = job.state
      if append and isFull(job, append) then
        answer = concat({ "full", job.state, job.rev }, US)
      else
        answer = replayRefusal(c, job, next)
      end
      if not answer then
        touch(c, job)
        if attempts ~= "" then job.attempts = attempts end
        if token ~= "" then job.changeToken = token end
        if append then appendEntry(c, job, append, true) end
        apply(c, job, next)
        answer = concat({ "ok", n, from, next.kind == "delete" and "" or job.state, job.rev }, US)
        follow(c, job, from, next)
      end
    end
  end
  if not job then return "gone" end
  local isRepeat = token ~= "" and job.changeToken == token
  return answer or concat({ isRepeat and "already" or "changed", job.state, job.rev }, US)
end

local function changeAll(c)
  local total, ids, answers = nextNumber(c), {}, {}
  for i = 1, total do
    ids[i] = nextArg(c)
  end
  local handles = fetch("HMGET", c.k.ids, ids)
  for i = 1, total do
    c.ids[ids[i]] = handles[i]
  end
  loadJobs(c, handles)
  takeTargets(c)
  for i = 1, total do
    answers[i] = changeOne(c, ids[i])
  end
  leaveTargets(c)
  return { writeCall(c), answers }
end

-- Allowed without memory: cancelling and removing jobs is how an operator makes room. Not so entries of journals.
serve("change", FREES, changeAll)
serve("change_journals", WRITES, changeAll)
`,
});
