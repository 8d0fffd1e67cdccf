/**
 * What a claim reads of its jobs and how it leases one: first claims of jobs that are alike by one template, others by
 * the job's own fields. Inputs are read up to the bound that the caller gave.
 */

export const firstClaimsLua = String.raw`
-- So many are read before it is known how large they are.
local FIRST_READ = 16

-- Adds the inputs of specs from one place to another. Answers the place with which they reach the bound, or nothing.
local function reachedAt(c, specs, from, to)
  for i = from, to do
    if specs[i] then
      c.bytes = c.bytes + inputBytes(specs[i])
      if c.bytes >= c.bytesMax then return i end
    end
  end
end

-- The same. A spec is longer than its input, so that sizes are looked at closely only near the bound.
local function reachedAbout(c, specs, from, to, out)
  if c.isExact then return reachedAt(c, specs, from, to) end
  local bytes = c.bytes
  for i = from, to do
    local spec = specs[i]
    if spec then bytes = bytes + #spec end
  end
  c.bytes = bytes
  if bytes < c.bytesMax then return nil end
  c.isExact, c.bytes = true, 0
  for i = 2, #out, 2 do c.bytes = c.bytes + inputBytes(out[i]) end
  return reachedAt(c, specs, 1, to)
end

-- The specs of members up to the one with which the inputs reach the bound, and how many that are. They are read by a
-- few, then by as many as there is room for. out: what was handed out before.
local function specsUpTo(c, members, out)
  local total, key = #members, c.k.spec
  if not c.bytesMax then return fetch("HMGET", key, members), total end
  local from, n = 1, min(FIRST_READ, total)
  local specs = call("HMGET", key, unpack(members, 1, n))
  while true do
    local reached = reachedAbout(c, specs, from, n, out)
    if reached or n == total then return specs, reached or n end
    local room = max(1, floor((c.bytesMax - c.bytes) * n / max(1, c.bytes)))
    from, n = n + 1, min(n + room, total)
    for i, spec in ipairs(fetch("HMGET", key, slice(members, from, n))) do specs[from + i - 1] = spec end
  end
end

-- What first claims of plain jobs of a route by one owner share: the parts of their state around id and times, and
-- their event.
local function templateOf(c, route, owner, isStarted, flags)
  local job = newJob()
  job.flags = flags
  job.id, job.route, job.state = HOLE, route, READY
  lease({ now = c.now, at = HOLE, fence = c.fence }, job, owner, HOLE, isStarted)
  local t = { parts = split(stateOf(job), HOLE) }
  t.event, t.extra = eventOf(job, CLAIMED)
  return t
end

local function firstKey(route, owner, isStarted) return (isStarted and "s" or "w") .. owner .. US .. route end

-- flags: what the jobs have beyond plain ones.
local function prepareFirst(c, route, owner, endsAt, isStarted, flags)
  local key = flags .. firstKey(route, owner, isStarted)
  local t = recall(c, key)
  if not t then
    t = templateOf(c, route, owner, isStarted, flags)
    keep(c, key, t)
  end
  local bundle = bundleOf(c, t.event, RUNNING, t.extra)
  return { before = t.parts[1], behind = fillFirst(t.parts, c.at, endsAt), bundle = bundle }
end

local function readBoth(c, members, out)
  local specs, taken = specsUpTo(c, members, out)
  return specs, taken, fetch("HMGET", c.k.state, taken == #members and members or slice(members, 1, taken))
end

-- Specs, how many, and states. Where they cannot be had at all, no job is left outside of its index.
local function readAll(c, members, source, out)
  if not source.popped then return readBoth(c, members, out) end
  local isRead, specs, taken, states = pcall(readBoth, c, members, out)
  if isRead then return specs, taken, states end
  putBack(source, 1)
  error(specs, 0)
end

-- Nothing for a job that is not ready on this route, or cannot be read.
local function leaseAny(c, h, spec, state, route, owner, endsAt, isStarted)
  widen(c)
  c.met = { route = route, state = READY }
  local job = jobFrom(c, h, spec, state)
  c.met = nil
  if not job or job.state ~= READY or job.route ~= route then return nil end
  touch(c, job)
  lease(c, job, owner, endsAt, isStarted)
  tell(c, job, CLAIMED)
  return job
end
`;
