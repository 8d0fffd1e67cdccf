/**
 * The end of a member that goes along many edges (R4): of the blocked jobs that it leads to, those that this one end frees
 * differ in their ids alone where their states have the same behind them. Each is compared with what is known, and gets its
 * state from one template, without a table of its own. All others are left to targets.ts.
 */

export const freeManyLua = String.raw`
-- The ids of jobs that an end meets and does not miss, and the edges to all others. An edge whose target was left before is left
-- too, so that what comes to one target keeps its order.
local function meetingOf(passing, ended)
  local flow, meets, isLeft, ids, edges, left = passing.flow .. ".", {}, {}, {}, {}, {}
  for _, edge in ipairs(passing.edges) do
    local mask, id = sub(edge, 1, 2), flow .. sub(edge, 3)
    local isMet = meets[mask]
    if isMet == nil then
      isMet = hasBit(sub(mask, 1, 1), ended) and not hasBit(sub(mask, 2, 2), ended)
      meets[mask] = isMet
    end
    if isMet and not isToFlow(edge) and not isLeft[id] then ids[#ids + 1], edges[#edges + 1] = id, edge
    else isLeft[id], left[#left + 1] = true, edge end
  end
  return ids, edges, left
end

-- What blocked jobs become that one end frees and whose states have this text behind their ids; false for others.
local function freedAlike(c, id, state)
  local target = { id = id, alike = false, head = false, uses = "" }
  readTarget(c, target, state)
  local alike = target.alike
  if not alike or not alike.isBlocked or alike.need ~= 1 or alike.slack < 0 or alike.owes == "1" then return false end
  local placed = placedFor(c, target)
  if not placed then return false end
  local waits = waitsOfTarget({ alike = alike, need = 0, slack = alike.slack })
  return { tail = sub(state, #BORN_BLOCKED + #id + 1), placed = placed, behind = placed.before .. waits .. placed.behind }
end

-- Frees these jobs, each with the edge that leads to it; the edges to those that have to be looked at one by one join the left.
local function freeAlike(c, ids, edges, left)
  local handles, known, written, n = fetch("HMGET", c.k.ids, ids), { tail = "" }, c.states or newList(c, "states"), 0
  local wanted, found = {}, {}
  for i, h in ipairs(handles) do
    if h and c.targets[ids[i]] == nil and c.ids[ids[i]] == nil and c.jobs[h] == nil and not c.done[h] then
      n = n + 1
      wanted[n], found[n] = h, i
    else left[#left + 1] = edges[i] end
  end
  local at, done = c.statesAt or #written, c.done
  for i, state in ipairs(fetch("HMGET", c.k.state, wanted)) do
    local id, h = ids[found[i]], wanted[i]
    -- An edge may lead to the same job twice.
    local text = not done[h] and state
    if text and text ~= BORN_BLOCKED .. id .. known.tail then known = freedAlike(c, id, text) or { tail = "" } end
    local placed = known.placed
    if not text or not placed then left[#left + 1] = edges[found[i]]
    else
      text = placed.head .. id .. known.behind
      written[at + 1], written[at + 2], done[h] = h, text, text
      at, placed.jobs = at + 2, placed.jobs + 1
      push2(c.zadd, placed.key, placed.score, h)
      local g = placed.bundle
      local told = g.n + 1
      g.n, g[told], g.ids[told] = told, id, id
    end
  end
  if c.statesAt then c.statesAt = at end
end

local function arriveAtMany(c, passing, ended)
  local ids, edges, left = meetingOf(passing, ended)
  freeAlike(c, ids, edges, left)
  local others = { flow = passing.flow, edges = left, to = #left, ends = 1, isMany = false }
  loadTargets(c, { others })
  arriveEach(c, others, ended)
end

-- An end goes along the edges of its passing, whose targets are in view unless they are many; what is left is owed.
local function goAlong(c, passing, id, ended)
  if passing.isMany then arriveAtMany(c, passing, ended)
  elseif c.isOneByOne or not countToCome(c, passing, ended) then arriveEach(c, passing, ended) end
  if passing.edges.isMore then owe(c, id) end
end
`;
