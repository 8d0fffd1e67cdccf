/**
 * settle: what a running attempt writes at its end, under its fence. Applied at most once and only with the current
 * fence; a repeat with the same fence answers already. Plain endings (no effects, kept) are written as a set: one
 * template for all that look alike, and their unique keys are freed together at the end; where the call has effects,
 * which may take such a key, jobs with keys go through the job's tables like everything else.
 *
 *  args     shapes of the effects, number of settles, their handles, then stretches: how many, next (argument-text.ts;
 *           a finish without its result), whether results, attempt logs and effects come, and per settle:
 *           fence US id US, [result], [attempt log], [a unit as in submit]
 *  answer   place and answer of each settle that was not applied
 */

export const settleLua = String.raw`
-- How a stretch of settles goes on; what is made for it serves all stretches of the call with the same next.
local function stretchOf(stretches, text)
  local stretch = stretches[text]
  if not stretch then
    stretch = { next = readFields(text), endings = {}, handles = {}, n = 0 }
    local next = stretch.next
    stretch.isPlain = HAS_PLAIN_ROADS and next.kind == "finish" and next.keepMs ~= "0" and next.keepResultMs == ""
    stretches[text] = stretch
  end
  return stretch
end

-- What plain endings of one next share where the rest of their states is the same: the parts of that rest around
-- attempts and result.
local function prepare(c, stretch, rest)
  local job, ending = { state = RUNNING, fence = HOLE, settledFence = HOLE, uniqueKey = "" }, { jobs = 0 }
  ending.isPlain = readRest(job, rest, 1)
  ending.hasKey = ending.isPlain and find(job.flags, HAS_KEY, 1, true) ~= nil
  ending.hasGates = ending.isPlain and find(job.flags, HAS_GATES, 1, true) ~= nil
  if ending.hasKey and #c.shapes > 0 then ending.isPlain = false end
  if ending.isPlain then
    ending.attempts = job.attempts
    finish(c, job, stretch.next)
    job.settledFence, job.attempts, job.result = job.fence, HOLE, HOLE
    ending.parts, ending.route = split(restOf(job), HOLE), job.route
    local event, extra = eventOf(job, stretch.next.event)
    ending.bundle = bundleOf(c, event, job.state, extra)
  end
  stretch.endings[rest] = ending
  return ending
end

-- Ends a job as one of a set; answers whether it is such an ending.
local function endPlain(c, stretch, h, state, prefix, result, attempts)
  local at = #RUNNING + #US + 1
  if not stretch.isPlain or not state then return false end
  if find(state, RUNNING, 1, true) ~= 1 or find(state, prefix, at, true) ~= at then return false end
  if c.done[h] or (c.jobs and c.jobs[h] ~= nil) then return false end
  local rest = sub(state, at + #prefix)
  local ending = stretch.endings[rest] or prepare(c, stretch, rest)
  if not ending.isPlain then return false end
  local states, n, g = c.states, c.statesAt, ending.bundle
  if attempts == "" then attempts = ending.attempts end
  local ended = fillEnding(stretch.next.to, prefix, ending.parts, attempts, result)
  states[n + 1], states[n + 2] = h, ended
  c.statesAt, c.done[h] = n + 2, ended
  stretch.n = stretch.n + 1
  stretch.handles[stretch.n] = h
  ending.jobs = ending.jobs + 1
  if ending.hasKey then c.keyHolders[#c.keyHolders + 1] = h end
  if ending.hasGates then push(c, "gated", h) end
  g.n = g.n + 1
  g[g.n] = sub(prefix, find(prefix, US, 1, true) + 1, -2)
  return true
end

-- The jobs of a stretch that ended as a set leave the leases for the lists of their outcome.
local function writeEndings(c, stretch)
  local k, to, keepUntil = c.k, stretch.next.to, after(c, stretch.next.keepMs or "")
  if stretch.n == 0 then return end
  many("ZREM", k.lease, stretch.handles)
  if keepUntil == "" then appendEnded(k, to, num(floor(c.now / MINUTE_MS)), stretch.handles) end
  for _, h in ipairs(stretch.handles) do
    if keepUntil ~= "" then push2(c.zadd, k.keep, keepUntil, h) end
    if isBad(to) then push2(c.zadd, k.bad .. to, seqOf(h), h) end
  end
  for _, ending in pairs(stretch.endings) do
    if ending.jobs > 0 then
      count(c, ending.route, RUNNING, -ending.jobs)
      count(c, ending.route, to, ending.jobs)
      if c.life.gates then returnPermits(c, ending.route) end
    end
  end
end

-- The jobs that ended as a set free the keys that they hold, as finish (rules.ts) does.
local function freeKeys(c)
  local handles = c.keyHolders
  if #handles == 0 then return end
  local keys, held, gone = keysIn(fetch("HMGET", c.k.spec, handles)), {}, {}
  for _, key in ipairs(keys) do held[#held + 1] = key or "" end
  local holders = fetch("HMGET", c.k.uniq, held)
  for i, key in ipairs(keys) do
    local holder = key and holders[i] and readFields(holders[i], "holder")
    if holder and holder.handle == handles[i] and (holder.hold == HOLD_END or holder.hold == HOLD_STARTED) then
      gone[#gone + 1] = key
    end
  end
  many("HDEL", c.k.uniq, gone)
end

local function refusalOf(c, h, id, fence)
  local present = handleById(c, id)
  if not present then return "gone" end
  local job = present == h and jobOf(c, h)
  return job and job.settledFence == fence and "already" or "stale"
end

-- One settle by the job's tables. Answers a refusal or nothing.
local function settleOne(c, h, prefix, next, attempts)
  local fence, id = match(prefix, "^([^\31]*)\31([^\31]*)\31$")
  local job = jobOf(c, h)
  if not job or job.id ~= id or job.state ~= RUNNING or job.fence ~= fence then return refusalOf(c, h, id, fence) end
  if job.cancelAsked == "1" and next.kind ~= "finish" then return "cancel-asked" end
  touch(c, job)
  if attempts ~= "" then job.attempts = attempts end
  job.settledFence = fence
  apply(c, job, next)
end

-- Any settle, with its effects. Answers a refusal or nothing.
local function settleAny(c, stretch, h, prefix, result, attempts, hasEffects)
  widen(c)
  local isLate, jobs, docs = false, 0, 0
  if hasEffects then isLate, jobs, docs = nextFlag(c), nextNumber(c), nextNumber(c) end
  -- An ending of this call is not written yet, so its state is read from here.
  if c.done[h] and c.jobs[h] == nil then c.jobs[h] = jobFrom(c, h, call("HGET", c.k.spec, h), c.done[h]) end
  local next, first = stretch.next, c.i
  next.result = result
  local refusal = whole(c, isLate, function()
    return settleOne(c, h, prefix, next, attempts) or (hasEffects and submitUnit(c, false, jobs, docs)) or nil
  end)
  c.i = first + unitArgs(jobs, docs)
  return refusal
end

function OPERATIONS.settle(c)
  local refused = readShapes(c)
  if refused then return refused end
  local total, refusals, stretches = nextNumber(c), {}, {}
  local handles = slice(c.args, c.i, c.i + total - 1)
  c.i, c.states, c.statesAt, c.done, c.keyHolders = c.i + total, {}, 0, {}, {}
  local states, at = fetch("HMGET", c.k.state, handles), 0
  while at < total do
    local length, stretch = nextNumber(c), stretchOf(stretches, nextArg(c))
    local hasResults, hasAttempts, hasEffects = nextFlag(c), nextFlag(c), nextFlag(c)
    for _ = 1, length do
      at = at + 1
      local prefix, result, attempts = nextArg(c), "", ""
      if hasResults then result = nextArg(c) end
      if hasAttempts then attempts = nextArg(c) end
      local h = handles[at]
      if hasEffects or not endPlain(c, stretch, h, states[at], prefix, result, attempts) then
        local refusal = settleAny(c, stretch, h, prefix, result, attempts, hasEffects)
        if refusal then
          refusals[#refusals + 1] = at - 1
          refusals[#refusals + 1] = refusal
        end
      end
    end
  end
  for _, stretch in pairs(stretches) do writeEndings(c, stretch) end
  freeKeys(c)
  if c.gated then freeGates(c) end
  writeRecords(c)
  return refusals
end
`;
