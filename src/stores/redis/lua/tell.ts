/**
 * Rule R10: every change of a job is told, with its state after the change and one value that goes with that state; the
 * counts of its route move with it. Events that differ only in their job are one bundle (store/packed-events.ts).
 */
import { terminalStates } from "../../../model/job-state.ts";
import { luaConstant } from "./lua-module.ts";

const terminal = terminalStates.map((state) => `[${luaConstant(state)}] = true`).join(", ");

export const tellLua = String.raw`
local TERMINAL = { ${terminal} }

local function isTerminal(state) return TERMINAL[state] end

-- Ended otherwise than well: such jobs are listed.
local function isBad(state) return TERMINAL[state] and state ~= COMPLETED end

-- Ready jobs are counted by their index, and running ones are all the others, so that neither claim nor hand-back
-- counts anything.
local function count(c, route, state, by)
  local tally, all = c.tally, route .. ":" .. TOTAL
  tally[all] = (tally[all] or 0) + by
  if state == READY or state == RUNNING then return end
  local field = route .. ":" .. state
  tally[field] = (tally[field] or 0) + by
end

local function leavePage(c, h)
  local page, pages = floor(seqOf(h) / PAGE), c.pages or {}
  c.pages = pages
  pages[page] = (pages[page] or 0) - 1
end

local function newBundle(c, key, state, extra)
  local g = { key, n = 1, state = state, extra = extra, place = #c.order + 1 }
  c.bundles[key] = g
  c.order[g.place] = g
  return g
end

-- The bundle of an event, for jobs that have no other one in this call.
local function bundleOf(c, key, state, extra) return c.bundles[key] or newBundle(c, key, state, extra) end

-- scheduled: when it is due; finished: the reason; running with a cancel asked: who runs it, but not at a claim.
local function extraOf(job, event)
  local state = job.state
  if isTerminal(state) then return job.reason == "" and "" or "s" .. job.reason end
  if state == SCHEDULED then return "n" .. job.dueAt end
  if state == RUNNING and job.cancelAsked == "1" and event ~= CLAIMED then return "s" .. job.owner end
  return ""
end

-- A job's event as the key of its bundle, and its extra value. isGone: the job is in no state any more.
local function eventOf(job, event, isGone)
  local extra = isGone and "" or extraOf(job, event)
  return concat({ event, job.rev, job.route, isGone and "" or job.state, job.attempt, extra }, US), extra
end

-- Jobs of this route became ready.
local function setReady(c, route)
  c.ready = c.ready or {}
  c.ready[route] = true
end

-- A bundle joins ids with the same event; inside a job the order of telling is kept.
local function tell(c, job, event, isGone)
  local key, extra = eventOf(job, event, isGone)
  local g, last, id = c.bundles[key], c.bundleOf[job.id], job.id
  if not g or (last and last >= g.place) then g = newBundle(c, key, isGone and "" or job.state, extra) end
  g.n = g.n + 1
  g[g.n] = id
  c.bundleOf[id] = g.place
  if c.undo then
    push(c, "undo", function()
      g[g.n] = nil
      g.n = g.n - 1
      c.bundleOf[id] = last
    end)
  end
end
`;
