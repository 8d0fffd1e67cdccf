/**
 * Rule R10: every change of a job is emitted, with its state after the change and one value that goes with that state;
 * the counts of its route move with it. Events that differ only in their job are one bundle
 * (store/packing/packed-events.ts).
 */
import { terminalStates } from "../../../model/job/job-state.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { notedMark, unreportedMark } from "../../../store/packing/packed-events.ts";
import { unreportedStart } from "../../../store/rules/emit.ts";
import { lua, luaConstant, luaModule, luaSet } from "../library/lua.ts";

export const emitLua = luaModule({
  name: "feed/emit",
  takes: ["push seqOf"],
  gives: [
    "NOTED NOTED_UNREPORTED NOTE_MAX isTerminal isBad count leavePage bundleOf emitPacked noteOf",
    "eventOf setReady emit",
  ],
  source: lua`
local NOTED, NOTED_UNREPORTED, UNREPORTED = "${notedMark}", "${notedMark}${unreportedMark}", "${unreportedStart}"
local NOTE_MAX = ${storeLimits.noteCharsMax}
local TERMINAL = ${luaSet(terminalStates.map(luaConstant))}

local function isTerminal(state) return TERMINAL[state] end

-- Ended otherwise than well: such jobs are listed.
local function isBad(state) return TERMINAL[state] and state ~= COMPLETED end

-- Ready jobs are counted by their index, and running ones are all the others, so that neither claim nor hand-back
-- counts anything.
local function count(c, route, state, by)
  local counts, all = c.counts, route .. ":" .. TOTAL
  counts[all] = (counts[all] or 0) + by
  if state == READY or state == RUNNING then return end
  local field = route .. ":" .. state
  counts[field] = (counts[field] or 0) + by
end

local function leavePage(c, h)
  local page, pages = floor(seqOf(h) / PAGE), c.pages or {}
  c.pages = pages
  pages[page] = (pages[page] or 0) - 1
end

-- From 2 to n: the ids, each with its note where the bundle has notes; ids: without. owner: "s" and who runs the jobs,
-- of an asked cancel or a signal.
local function newBundle(c, key, state, owner)
  local g = { key, n = 1, ids = { "" }, state = state, owner = owner, place = #c.order + 1 }
  c.bundles[key] = g
  c.order[g.place] = g
  return g
end

-- The bundle of an event, for jobs that have no other one in this call.
local function bundleOf(c, key, state) return c.bundles[key] or newBundle(c, key, state, "") end

-- A bundle of events that are about no job, as it stands in the feed.
local function emitPacked(c, bundle)
  local place = #c.order + 1
  c.order[place] = { bundle, n = 2, ids = {}, state = "", owner = "", place = place }
  c.hasNews = true
  if c.undo then push(c, "undo", function() c.order[place] = nil end) end
end

-- claimed: 1 where it starts with the claim; started: when; progress, step: the text. Else, scheduled: when it is due;
-- finished: the reason; running with a cancel asked, or a signal: who runs it.
local function extraOf(job, event)
  local state = job.state
  if event == CLAIMED then return job.startedAt == "" and "" or "n1" end
  if event == STARTED then return "n" .. job.startedAt end
  if event == PROGRESS or event == STEP then return "s" .. job.progress end
  if isTerminal(state) then return job.reason == "" and "" or "s" .. job.reason end
  if state == SCHEDULED then return "n" .. job.dueAt end
  if state == RUNNING and (job.cancelAsked == "1" or event == SIGNALLED) then return "s" .. job.owner end
  return ""
end

-- What the event of a settle carries beside (store/rules/emit.ts): whether the start is unreported, and a short attempt
-- log.
local function noteOf(job, attempts)
  return (job.startedAt == "" and UNREPORTED or "") .. (#attempts <= NOTE_MAX and attempts or "")
end

-- A job's event as the key of its bundle, and its extra value. isGone: the job is in no state any more. mark: NOTED
-- if a note follows each id of the bundle; NOTED_UNREPORTED: each note says that the start is unreported.
local function eventOf(job, event, isGone, mark)
  local extra = isGone and "" or extraOf(job, event)
  return concat(
    { mark and event .. mark or event, job.rev, job.route, isGone and "" or job.state, job.attempt, extra },
    US
  ),
    extra
end

-- Jobs of this route became ready.
local function setReady(c, route)
  c.ready = c.ready or {}
  c.ready[route] = true
end

-- A bundle joins ids with the same event; inside a job the order of its events is kept.
local function emit(c, job, event, isGone, note)
  local mark = note and NOTED
  if note and sub(note, 1, #UNREPORTED) == UNREPORTED then
    mark, note = NOTED_UNREPORTED, sub(note, #UNREPORTED + 1)
  end
  if event == STARTED or event == PROGRESS then c.hasNews = true end
  local key, extra = eventOf(job, event, isGone, mark)
  local g, last, id = c.bundles[key], c.bundleOf[job.id], job.id
  if not g or (last and last >= g.place) then
    local isSignal = event == SIGNALLED and job.state == RUNNING
    g = newBundle(c, key, isGone and "" or job.state, (event == CANCEL_ASKED or isSignal) and extra or "")
    g.isSignal, g.isOutput = isSignal, event == OUTPUT
  end
  g.n = g.n + 1
  g[g.n], g.ids[g.n] = note and id .. US .. note or id, id
  c.bundleOf[id] = g.place
  if c.undo then
    push(c, "undo", function()
      g[g.n], g.ids[g.n] = nil, nil
      g.n = g.n - 1
      c.bundleOf[id] = last
    end)
  end
end
`,
});
