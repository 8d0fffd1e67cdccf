-- groups/lane-ends
module(function()
local add2, fetch, hintOpened, many, NONE, noteHeld = M.add2, M.fetch, M.hintOpened, M.many, M.NONE, M.noteHeld
local noteOpen, num, onlyUse, workOf = M.noteOpen, M.num, M.onlyUse, M.workOf

-- A job that ends gives back what it holds, as its state says from there on: one gate of a key, most often of one
-- permit, as the job before it. Others are noted. Answers whether it says any.
--  c.back   keys: those of one permit each, prefix: what uses of these begin with; others: uses
local function giveBackUses(c, state, at)
  local back = c.back
  if not back then
    back = { keys = {}, n = 0, prefix = HOLE, others = {} }
    c.back = back
  end
  if find(state, back.prefix, at, true) ~= at then
    local prefix = match(state, "^1:%d*:", at)
    if not prefix then
      local uses = sub(state, at)
      if uses ~= "" then back.others[#back.others + 1] = uses end
      return uses ~= ""
    end
    back.prefix = prefix
  end
  if find(state, RS, at, true) then
    back.others[#back.others + 1] = sub(state, at)
  else
    local n = back.n + 1
    back.n, back.keys[n] = n, sub(state, at + #back.prefix)
  end
  return true
end

-- What is given back, by key; of jobs that have several gates it is noted.
local function heldBy(work, back)
  local freed, keys, last = {}, {}, {}
  local function add(key, by)
    if not freed[key] then keys[#keys + 1] = key end
    freed[key] = (freed[key] or 0) + by
  end
  for i = 1, back.n do
    add(back.keys[i], 1)
  end
  for _, uses in ipairs(back.others) do
    local key, use = onlyUse(last, uses)
    if key then
      add(key, use.weight)
    else
      noteHeld(work, { state = RUNNING, laneGates = uses }, -1)
    end
  end
  return freed, keys
end

-- Permits of these keys came back: lanes that wait there may go on.
local function noteReleases(c, work, keys)
  if #keys == 0 or call("EXISTS", c.k.waits) == 0 then return end
  for _, key in ipairs(keys) do
    work.releases[key] = true
  end
end

-- areDropped: keys of which one was held are free already.
local function returnHeld(c, work, keys, freed, areDropped)
  local set, gone, ones, noOnes, returned, keyed = {}, {}, {}, {}, {}, c.keyed or NONE
  local texts, isOne = fetch("HMGET", c.k.use, keys), areDropped and NONE or fetch("SMISMEMBER", c.k.one, keys)
  for i = 1, #keys do
    local key, text = keys[i], texts[i]
    local by, wasOne = freed[key], isOne[i] == 1
    local held = not keyed[key] and (wasOne and 1 or text and tonumber(text))
    if held then
      local left = held - by
      if left > 1 then
        add2(set, key, num(left))
      elseif text then
        gone[#gone + 1] = key
      end
      if left == 1 then
        ones[#ones + 1] = key
      elseif wasOne then
        noOnes[#noOnes + 1] = key
      end
    end
    if held or areDropped and not text then
      returned[#returned + 1] = key
    else
      work.held[key] = (work.held[key] or 0) - by
    end
  end
  many("HDEL", c.k.use, gone)
  many("SREM", c.k.one, noOnes)
  many("HSET", c.k.use, set)
  many("SADD", c.k.one, ones)
  noteReleases(c, work, returned)
end

-- Keys of which one is held, by a job that has given it back, are free. Answers how many these were; none where the
-- call knows of gates itself, or where jobs hold more.
local function dropOnes(c, back)
  if #back.others > 0 or c.keyed then return 0 end
  local dropped, n = 0, back.n
  for i = 1, n, CHUNK do
    dropped = dropped + call("SREM", c.k.one, unpack(back.keys, i, min(i + CHUNK - 1, n)))
  end
  return dropped
end

-- Ends as a set of jobs of these routes that have gates of keys. If lanes of such a route are open, their first jobs
-- may go on; a lane whose first job is of another route was hinted when it got that job.
local function freeGates(c, routes)
  local work, back = workOf(c), c.back
  c.back = nil
  local dropped = dropOnes(c, back)
  if dropped == back.n and #back.others == 0 then
    noteReleases(c, work, back.keys)
  else
    local freed, keys = heldBy(work, back)
    returnHeld(c, work, keys, freed, dropped > 0)
  end
  for route in pairs(routes) do
    if call("EXISTS", c.k.open .. route) == 1 then noteOpen(c, route) end
  end
  hintOpened(c)
end

M.giveBackUses, M.freeGates = giveBackUses, freeGates
end)
