/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing; a
 * repair means a bug or a hand in the keys, and is counted by kind so that somebody looks. Each phase answers: checked,
 * repaired, cursor ("" when it is over).
 *
 *  audit_jobs    after seq, max     each job stands in the index of its state with the right score, and in those of
 *                                   its tags
 *  audit_index   index, rank, max   each entry of an index (due, lease, clock, then each route) is a job that
 *                                   belongs there
 *  audit_keys    cursor, max        no unique key is held by a job that is gone or over, unless by time
 *  audit_tally                      the tallies of all routes add up to the jobs and to the indexes of their states;
 *                                   else they are recounted. A job counted with another route is found where that
 *                                   leaves its own fewer than are ready
 */
import type { LuaModule } from "./lua-module.ts";

export const auditLua: LuaModule = {
  exports: [],
  source: String.raw`
-- An entry of a sorted set is as it should be. Answers how many repairs that took.
local function ensure(key, score, h)
  local found = call("ZSCORE", key, h)
  if found and tonumber(found) == tonumber(score) then return 0 end
  return call("ZADD", key, "CH", score, h)
end

local function repairJob(c, job)
  local k, h, repaired = c.k, job.h, 0
  local key, score, clock = whereIs(k, job)
  if key then repaired = repaired + ensure(key, score, h) end
  if clock ~= "" then repaired = repaired + ensure(k.clock, clock, h) end
  if isBad(job.state) then repaired = repaired + ensure(k.bad .. job.state, seqOf(h), h) end
  if job.tags ~= "" then
    for _, tag in ipairs(split(job.tags, RS)) do repaired = repaired + ensure(k.tag .. tag, seqOf(h), h) end
  end
  if call("HGET", k.ids, job.id) == h then return repaired end
  call("HSET", k.ids, job.id, h)
  return repaired + 1
end

redis.register_function({ function_name = "mr1_audit_jobs", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local seq, most, checked, repaired = nextNumber(c), nextNumber(c), 0, 0
  while checked < most do
    local from, open = floor((seq + 1) / PAGE), floor((c.seq + 1) / PAGE)
    local page = call("ZRANGEBYSCORE", c.k.pages, num(from), "+inf", "LIMIT", 0, 1)[1]
    if not page and from <= open then page = open end
    if not page then return { checked, repaired, "" } end
    local handles, last = {}, page * PAGE + PAGE - 1
    for at = max(seq + 1, page * PAGE), last do handles[#handles + 1] = handleOf(at) end
    loadJobs(c, handles)
    for _, h in ipairs(handles) do
      if checked == most then return { checked, repaired, num(seq) } end
      seq = seqOf(h)
      if c.jobs[h] then
        checked = checked + 1
        repaired = repaired + repairJob(c, c.jobs[h])
      end
    end
  end
  return { checked, repaired, num(seq) }
end })

local CLOCKS = { "due", "lease", "clock" }

-- The indexes in the order in which they are walked: those of clocks by name, then those of ready jobs by route.
local function indexBehind(c, index)
  for i, name in ipairs(CLOCKS) do
    if name == index and CLOCKS[i + 1] then return CLOCKS[i + 1] end
  end
  local behind, best = not c.k[index] and index or "", nil
  for route in eachRoute(c) do
    if route > behind and (not best or route < best) then best = route end
  end
  return best
end

redis.register_function({ function_name = "mr1_audit_index", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local index, rank, most = nextArg(c), nextNumber(c), nextNumber(c)
  local key = c.k[index] or c.k.ready .. index
  local handles, stray = call("ZRANGE", key, rank, rank + most - 1), {}
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job, belongs = c.jobs[h], h == LONG_ENTRY
    if job then
      local own, _, clock = whereIs(c.k, job)
      belongs = own == key or (key == c.k.clock and clock ~= "")
    end
    if not belongs then stray[#stray + 1] = h end
  end
  many("ZREM", key, stray)
  if #handles == most then return { #handles, #stray, index .. ":" .. num(rank + most - #stray) } end
  local next = indexBehind(c, index)
  return { #handles, #stray, next and next .. ":0" or "" }
end })

redis.register_function({ function_name = "mr1_audit_keys", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local page, repaired = call("HSCAN", c.k.uniq, nextArg(c), "COUNT", nextArg(c)), 0
  for i = 1, #page[2], 2 do
    local holder = readFields(page[2][i + 1], "holder")
    local job = jobOf(c, holder.handle)
    local isStray = holder.heldUntil == "" and (not job or isTerminal(job.state))
    if isStray then repaired = repaired + call("HDEL", c.k.uniq, page[2][i]) end
  end
  return { #page[2] / 2, repaired, page[1] == "0" and "" or page[1] }
end })

-- Of all routes together: what is counted and what only its index counts (ready, running) are all jobs there are. Of
-- one route, as many as are ready are left over at least; whatever else is left is running there. left: by route, its
-- jobs without those that are counted by state.
local function isRight(c, sums, left, total)
  local k, scheduled = c.k, call("ZCARD", c.k.due)
  if (sums[TOTAL] or 0) ~= total or (sums[SCHEDULED] or 0) ~= scheduled then return false end
  -- Without the entry that keeps the index in its form (enter.ts).
  local known = scheduled + call("ZCOUNT", k.lease, "-inf", "(+inf")
  for route in eachRoute(c) do
    local ready = call("ZCARD", k.ready .. route)
    if ready > (left[route] or 0) then return false end
    known = known + ready
  end
  for state, n in pairs(sums) do
    if state ~= TOTAL and state ~= SCHEDULED then
      if isBad(state) and n ~= call("ZCARD", k.bad .. state) then return false end
      known = known + n
    end
  end
  return known == total
end

-- The counts as the jobs themselves have them.
local function recount(c)
  local seq = c.seq + 1
  while true do
    local handles = below(c, "", nil, seq, PAGE)
    if #handles == 0 then break end
    c.jobs = {}
    loadJobs(c, handles)
    for _, job in pairs(c.jobs) do
      if job then count(c, job.route, job.state, 1) end
    end
    seq = seqOf(handles[#handles])
  end
  return c.tally
end

redis.register_function({ function_name = "mr1_audit_tally", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local told, sums, left, total, repaired = {}, {}, {}, call("HLEN", c.k.spec), 0
  local flat = call("HGETALL", c.k.tally)
  for i = 1, #flat, 2 do
    local route, state, n = sub(flat[i], 1, -3), sub(flat[i], -1), tonumber(flat[i + 1])
    told[flat[i]] = n
    sums[state] = (sums[state] or 0) + n
    left[route] = (left[route] or 0) + (state == TOTAL and n or -n)
  end
  if isRight(c, sums, left, total) then return { total, 0, "" } end
  local real = recount(c)
  for field in pairs(told) do real[field] = real[field] or 0 end
  for field, n in pairs(real) do
    if n ~= told[field] then
      repaired = repaired + 1
      call("HSET", c.k.tally, field, n)
    end
  end
  return { total, repaired, "" }
end })
`,
};
