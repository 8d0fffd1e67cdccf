/**
 * The end of a member that goes along many edges (R4): of the blocked jobs that it leads to, those that this one end
 * frees differ in their ids alone where their states have the same after them. Each is compared with the one before,
 * and gets its state from the same template, without a table of its own. All others are left to targets.lua.ts.
 */
import { lua, luaModule } from "../library/lua.ts";

export const freeManyLua = luaModule({
  name: "flows/free-many",
  takes: [
    "arriveEach BORN_BLOCKED countToCome deferWork fetch handleOf hasBit headIn isToFlow loadTargets",
    "placedFor push2 readTarget seqOf waitsOfTarget",
  ],
  gives: ["goAlong"],
  source: lua`
-- If more series than this have to be handled one by one, all targets after them are too.
local SERIES_MAX = 8

local AFTER_BORN_BLOCKED = #BORN_BLOCKED + 1

-- By the masks of an edge: whether this end meets it and does not miss it.
local function meetsOnly(meets, mask, ended)
  local isMet = meets[mask]
  if isMet == nil then
    isMet = hasBit(sub(mask, 1, 1), ended) and not hasBit(sub(mask, 2, 2), ended)
    meets[mask] = isMet
  end
  return isMet
end

-- What blocked jobs become that one end frees and whose states have this text after their ids; false for others.
local function freedAlike(c, id, state)
  local target = { id = id, alike = false, head = false, uses = "" }
  readTarget(c, target, state)
  local alike = target.alike
  if not alike or not alike.isBlocked or alike.need ~= 1 or alike.slack < 0 or alike.defers == "1" then return false end
  local placed = placedFor(c, target)
  if not placed then return false end
  local waits = waitsOfTarget({ alike = alike, need = 0, slack = alike.slack })
  return {
    tail = sub(state, AFTER_BORN_BLOCKED + #id),
    placed = placed,
    behind = placed.before .. waits .. placed.behind,
  }
end

-- Whether a state is that of a job with this id, and else like the one before.
local function isLikeFreed(like, state, id)
  local tail, tailAt = like.tail, AFTER_BORN_BLOCKED + #id
  return #state == tailAt + #tail - 1
    and find(state, tail, tailAt, true) == tailAt
    and find(state, id, AFTER_BORN_BLOCKED, true) == AFTER_BORN_BLOCKED
    and find(state, BORN_BLOCKED, 1, true) == 1
end

-- The handles and the states of the jobs with these ids; false for those that are not there.
local function readMany(c, ids)
  local handles, wanted, at, states = fetch("HMGET", c.k.ids, ids), {}, {}, {}
  for i, h in ipairs(handles) do
    states[i] = false
    if h then
      wanted[#wanted + 1], at[#at + 1] = h, i
    end
  end
  for n, state in ipairs(fetch("HMGET", c.k.state, wanted)) do
    states[at[n]] = state
  end
  return handles, states
end

-- One job, as those become that are like it.
local function freeAs(c, like, id, h)
  local states, placed = c.states, like.placed
  local n, text, g = c.statesAt or #states, placed.head .. id .. like.behind, placed.bundle
  states[n + 1], states[n + 2], c.done[h] = h, text, text
  if c.statesAt then c.statesAt = n + 2 end
  placed.jobs = placed.jobs + 1
  push2(c.zadd, placed.key, placed.score, h)
  n = g.n + 1
  g.n, g[n], g.ids[n] = n, id, id
end

-- The handles that these jobs have if they were made one after the other, as the members of a wide flow are, and their
-- states. A state has the id of its job, so a job whose state is as expected has that handle. Their first edge may be
-- to the flow.
local function guessMany(c, ids, edges)
  local at = isToFlow(edges[1]) and 2 or 1
  local first = call("HGET", c.k.ids, ids[at])
  if not first then return readMany(c, ids) end
  local handles, seq = {}, seqOf(first) - at
  for i = 1, #ids do
    handles[i] = handleOf(max(0, seq + i))
  end
  return handles, fetch("HMGET", c.k.state, handles), true
end

-- An end arrives along edges of one flow, at each target by itself.
local function arriveAtSome(c, flow, edges, ended)
  local passing = { flow = flow, edges = edges, to = #edges, ends = 1, isMany = false }
  loadTargets(c, { passing })
  arriveEach(c, passing, ended)
end

-- If more states than this are not as expected, the guess of the handles was wrong.
local WRONG_MAX = 4

-- In the order of the edges: what has to be looked at by itself is put off only until the next that is freed as others
-- were.
local function arriveAtMany(c, passing, ended)
  local flow, edges, ids, meets, left, seriesByKey, like, wrong = passing.flow, passing.edges, {}, {}, {}, 0, nil, 0
  local begin, done, jobs, known, targets = flow .. ".", c.done, c.jobs, c.ids, c.targets
  for i, edge in ipairs(edges) do
    ids[i] = begin .. sub(edge, 3)
  end
  local handles, states, isGuessed = guessMany(c, ids, edges)
  c.states = c.states or {}
  for i, edge in ipairs(edges) do
    local id, h, state = ids[i], handles[i], states[i]
    local isLike = like and state and isLikeFreed(like, state, id)
    if isGuessed and not isLike and not (state and headIn(state, id)) then
      wrong = wrong + 1
      if wrong > WRONG_MAX then
        handles, states = readMany(c, ids)
        isGuessed, h, state = false, handles[i], states[i]
      else
        h = call("HGET", c.k.ids, id)
        state = h and call("HGET", c.k.state, h)
      end
      isLike = like and state and isLikeFreed(like, state, id)
    end
    local mayBeFreed = state and seriesByKey <= SERIES_MAX and #edge > 2 and meetsOnly(meets, sub(edge, 1, 2), ended)
    if mayBeFreed and left[1] then
      arriveAtSome(c, flow, left, ended)
      left, seriesByKey = {}, seriesByKey + 1
    end
    -- Only now, because an edge that was put off may lead to the same job.
    mayBeFreed = mayBeFreed and not targets[id] and known[id] == nil and jobs[h] == nil and not done[h]
    if mayBeFreed and not isLike then like = freedAlike(c, id, state) end
    if mayBeFreed and like then
      freeAs(c, like, id, h)
    else
      left[#left + 1] = edge
    end
  end
  if left[1] then arriveAtSome(c, flow, left, ended) end
end

-- An end goes along the edges of its passing, whose targets are in view unless they are many; what is left is deferred.
local function goAlong(c, passing, id, ended)
  if passing.isMany then
    arriveAtMany(c, passing, ended)
  elseif c.isOneByOne or not countToCome(c, passing, ended) then
    arriveEach(c, passing, ended)
  end
  if passing.edges.isMore then deferWork(c, id) end
end
`,
});
