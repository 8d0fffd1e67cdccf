-- runs/ready-jobs
module(function()
local admit, fetch, many, num, refuse, roomOf, slice = M.admit, M.fetch, M.many, M.num, M.refuse, M.roomOf, M.slice
local takePermits = M.takePermits

local SKIP_MAX = 10000
-- Up to this many, one command takes them out; the scores that come with each cost more than a second command for many.
local POP_MAX = 16
-- If a claim offers no more routes than this, it first asks which of them have jobs.
local ASKED_MAX = 8

-- The next ready jobs of a route after those looked at before: members and, on request, scores. Jobs whose clock has
-- rung are passed over.
local function look(c, source, wanted, hasScores)
  if not hasScores and not c.hasRung then
    if wanted > POP_MAX then return call("ZRANGE", source.key, "0", num(wanted - 1)) end
    local popped, members = call("ZPOPMIN", source.key, num(wanted)), {}
    for i = 1, #popped, 2 do
      members[#members + 1] = popped[i]
    end
    source.popped = popped
    return members
  end
  local members, scores = {}, {}
  while #members < wanted and not source.isEmpty do
    local want = wanted - #members
    local found = call("ZRANGE", source.key, source.at, source.at + want - 1, "WITHSCORES")
    local handles, clocks = {}, nil
    for i = 1, #found, 2 do
      handles[#handles + 1] = found[i]
    end
    if #handles < want then source.isEmpty = true end
    source.at = source.at + #handles
    if c.hasRung then clocks = fetch("ZMSCORE", c.k.clock, handles) end
    for i, h in ipairs(handles) do
      local clock = clocks and clocks[i]
      if clock and tonumber(clock) <= c.now then
        source.skipped = source.skipped + 1
      else
        members[#members + 1] = h
        scores[#scores + 1] = tonumber(found[i * 2])
      end
    end
    if source.skipped > SKIP_MAX then source.isEmpty = true end
  end
  return members, scores
end

local function sourceOf(c, route)
  return {
    key = c.k.ready .. route,
    route = route,
    at = 0,
    skipped = 0,
    taken = {},
  }
end

local function isBefore(a, b)
  local x, y = a.scores[a.head], b.scores[b.head]
  if x ~= y then return x < y end
  return a.members[a.head] < b.members[b.head]
end

-- Merges several routes by their heads, which are kept sorted. Answers the members, the source of each, and all
-- sources. mayPass: whether the head of a source may be taken after the first n; if not, neither may the jobs after
-- it. Of a source from which none may, the head alone is read, to know whether and when it is met.
local function takeMerged(c, routes, wanted, mayPass)
  local heads, all, batch = {}, {}, math.ceil(2 * wanted / #routes) + 8
  local function refill(source)
    source.members, source.scores = look(c, source, source.isShut and 1 or batch, true)
    source.head = 1
    return #source.members > 0
  end
  local function settle(i)
    while heads[i + 1] and isBefore(heads[i + 1], heads[i]) do
      heads[i], heads[i + 1] = heads[i + 1], heads[i]
      i = i + 1
    end
  end
  for _, route in ipairs(routes) do
    local source = sourceOf(c, route)
    all[#all + 1] = source
    source.isShut = mayPass and roomOf(c, route) == 0
    if refill(source) then heads[#heads + 1] = source end
  end
  table.sort(heads, isBefore)
  local members, of, n = {}, {}, 0
  while n < wanted and heads[1] do
    local source = heads[1]
    if mayPass and not mayPass(c, source, n) then
      table.remove(heads, 1)
    else
      local h = source.members[source.head]
      n = n + 1
      members[n], of[n] = h, source
      source.taken[#source.taken + 1] = h
      source.head = source.head + 1
      if source.head <= #source.members or refill(source) then
        settle(1)
      else
        table.remove(heads, 1)
      end
    end
  end
  return members, of, all
end

-- What the read took out of the index, and the claim does not take, goes back.
local function putBack(source, from)
  for i = from * 2, #source.popped, 2 do
    call("ZADD", source.key, source.popped[i], source.popped[i - 1])
  end
end

local function takeOut(source)
  local n = #source.taken
  if source.popped then return putBack(source, n + 1) end
  if n == 0 then return end
  if source.skipped == 0 then
    call("ZREMRANGEBYRANK", source.key, "0", num(n - 1))
  else
    many("ZREM", source.key, source.taken)
  end
end

-- Those of some routes that have ready jobs, or the first: one route is looked at for less than two that are merged. Of
-- many routes a merge knows as fast.
local function filledOf(c, routes)
  if #routes == 1 or #routes > ASKED_MAX then return routes end
  local filled = {}
  for _, route in ipairs(routes) do
    if call("EXISTS", c.k.ready .. route) == 1 then filled[#filled + 1] = route end
  end
  filled[1] = filled[1] or routes[1]
  return filled
end

-- The members of one offer, the source of each (nothing where all are of one), and the sources.
local function lookOffer(c, routes, wanted, isFull)
  if #routes > 1 then return takeMerged(c, routes, wanted) end
  local source = sourceOf(c, routes[1])
  source.taken = look(c, source, wanted, isFull)
  return source.taken, nil, { source }
end

-- The same for an offer some of whose routes have gates: at most the jobs that these let pass (admit.lua.ts).
local function lookGated(c, routes, wanted)
  c.refused, c.ranks, c.room = {}, {}, wanted
  if #routes > 1 or c.hasRung then return takeMerged(c, routes, wanted, admit) end
  local source = sourceOf(c, routes[1])
  local room = min(wanted, roomOf(c, source.route))
  if room > 0 then source.taken = look(c, source, room) end
  local n = #source.taken
  takePermits(c, source.route, n)
  c.room = room
  local isMet = n == room and room < wanted and call("ZCARD", source.key) > (source.popped and 0 or n)
  if isMet then refuse(c, source, n) end
  return source.taken, nil, { source }
end

-- The first n of these members leave their indexes.
local function takeFirst(c, members, of, sources, n, wanted)
  if of then
    for i = #members, n + 1, -1 do
      local taken = of[i].taken
      taken[#taken] = nil
    end
  elseif n < #members then
    sources[1].taken = slice(members, 1, n)
  end
  for _, source in ipairs(sources) do
    takeOut(source)
  end
  if not of and n == #members and n < wanted and sources[1].skipped == 0 then c.emptied[sources[1].route] = true end
end

M.putBack, M.filledOf, M.lookOffer, M.lookGated = putBack, filledOf, lookOffer, lookGated
M.takeFirst = takeFirst
end)
