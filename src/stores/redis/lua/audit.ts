/**
 * The index audit: walks what is derived and makes it right where it is wrong. On a healthy store it repairs nothing; a repair means a bug
 * or a hand in the keys, and is counted by kind so that somebody looks. Each phase answers: checked, repaired, cursor ("" when it is over).
 *
 *  audit_jobs    after seq, max     each job stands in the index of its state with the right score, and in those of its tags
 *  audit_index   index, rank, max   each entry of an index (1 due, 2 lease, 3 clock, 4.. the routes) is a job that belongs there
 *  audit_keys    cursor, max        no unique key is held by a job that is gone or over, unless by time
 *  audit_tally                      the tallies of all routes add up to the jobs and to the indexes of their states; else they are recounted.
 *                                   A job that is counted with another route is found where that leaves its own fewer than are ready
 */
export const auditLua = String.raw`
local function isScore(found, wanted) return found and tonumber(found) == tonumber(wanted) end

redis.register_function({ function_name = "mr1_audit_jobs", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local seq, max, checked, repaired = tonumber(nextArg(c)), tonumber(nextArg(c)), 0, 0
  while checked < max do
    local from, open = floor((seq + 1) / PAGE), floor((c.seq + 1) / PAGE)
    local page = call("ZRANGEBYSCORE", c.k.pages, num(from), "+inf", "LIMIT", 0, 1)[1]
    if not page and from <= open then page = open end
    if not page then return { checked, repaired, "" } end
    local handles, last = {}, page * PAGE + PAGE - 1
    for at = math.max(seq + 1, page * PAGE), last do handles[#handles + 1] = handleOf(at) end
    loadJobs(c, handles)
    for _, h in ipairs(handles) do
      if checked == max then return { checked, repaired, num(seq) } end
      local job = c.jobs[h]
      seq = seqOf(h)
      if job then
        checked = checked + 1
        local key, score, clock = placeOf(c.k, job)
        if key and not isScore(call("ZSCORE", key, h), score) then
          repaired = repaired + call("ZADD", key, "CH", score, h)
        end
        if clock ~= "" and not isScore(call("ZSCORE", c.k.clock, h), clock) then
          repaired = repaired + call("ZADD", c.k.clock, "CH", clock, h)
        end
        local bySeq = isBad(job.status) and { c.k.bad .. job.status } or {}
        if job.tags ~= "" then
          for _, tag in ipairs(split(job.tags, RS)) do bySeq[#bySeq + 1] = c.k.tag .. tag end
        end
        for _, list in ipairs(bySeq) do
          if not call("ZSCORE", list, h) then repaired = repaired + call("ZADD", list, seqOf(h), h) end
        end
        if call("HGET", c.k.ids, job.id) ~= h then
          call("HSET", c.k.ids, job.id, h)
          repaired = repaired + 1
        end
      end
    end
  end
  return { checked, repaired, num(seq) }
end })

redis.register_function({ function_name = "mr1_audit_index", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local index, rank, max = tonumber(nextArg(c)), tonumber(nextArg(c)), tonumber(nextArg(c))
  local key = ({ c.k.due, c.k.lease, c.k.clock })[index] or c.k.ready .. num(index - 3)
  local handles, stray = call("ZRANGE", key, rank, rank + max - 1), {}
  loadJobs(c, handles)
  for _, h in ipairs(handles) do
    local job, belongs = c.jobs[h], false
    if job then
      local place, _, clock = placeOf(c.k, job)
      belongs = place == key or (index == 3 and clock ~= "")
    elseif byte(h) == 126 then belongs = true end
    if not belongs then stray[#stray + 1] = h end
  end
  many("ZREM", key, stray)
  if #handles == max then return { #handles, #stray, num(index) .. ":" .. num(rank + max - #stray) } end
  local isLast = index >= 3 + call("LLEN", c.k.route)
  return { #handles, #stray, isLast and "" or num(index + 1) .. ":0" }
end })

redis.register_function({ function_name = "mr1_audit_keys", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local page, repaired = call("HSCAN", c.k.uniq, nextArg(c), "COUNT", nextArg(c)), 0
  for i = 1, #page[2], 2 do
    local h, _, till = unpack(split(page[2][i + 1], US))
    local job = jobOf(c, h)
    if till == "" and (not job or isTerminal(job.status)) then repaired = repaired + call("HDEL", c.k.uniq, page[2][i]) end
  end
  return { #page[2] / 2, repaired, page[1] == "0" and "" or page[1] }
end })

-- Of all routes together: what is counted and what only its index counts (ready, running) are all jobs there are. Of one route, as many as are
-- ready are left over at least; whatever else is left is running there. left: by route, its jobs without those that are counted by state.
local function isRight(c, sums, left, total)
  local k, scheduled = c.k, call("ZCARD", c.k.due)
  if (sums.t or 0) ~= total or (sums[SCHEDULED] or 0) ~= scheduled then return false end
  -- Without the entry that keeps the index in its form (enter.ts).
  local known = scheduled + call("ZCOUNT", k.lease, "-inf", "(+inf")
  for route = 1, c.routes do
    local ready = call("ZCARD", k.ready .. num(route))
    if ready > (left[num(route)] or 0) then return false end
    known = known + ready
  end
  for status, n in pairs(sums) do
    if status ~= "t" and status ~= SCHEDULED then
      if isBad(status) and n ~= call("ZCARD", k.bad .. status) then return false end
      known = known + n
    end
  end
  return known == total
end

redis.register_function({ function_name = "mr1_audit_tally", flags = { "allow-oom" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local told, sums, left, total = {}, {}, {}, call("HLEN", c.k.spec)
  local flat = call("HGETALL", c.k.tally)
  for i = 1, #flat, 2 do
    local route, status, n = sub(flat[i], 1, -3), sub(flat[i], -1), tonumber(flat[i + 1])
    told[flat[i]] = n
    sums[status] = (sums[status] or 0) + n
    left[route] = (left[route] or 0) + (status == "t" and n or -n)
  end
  if isRight(c, sums, left, total) then return { total, 0, "" } end
  local real, seq, repaired = {}, c.seq + 1, 0
  while true do
    local handles = below(c, "", nil, seq, PAGE)
    if #handles == 0 then break end
    c.jobs = {}
    loadJobs(c, handles)
    for _, job in pairs(c.jobs) do
      if job then
        local all, field = job.route .. ":t", job.route .. ":" .. job.status
        real[all] = (real[all] or 0) + 1
        if job.status ~= READY and job.status ~= RUNNING then real[field] = (real[field] or 0) + 1 end
      end
    end
    seq = seqOf(handles[#handles])
  end
  for field, n in pairs(told) do
    if n ~= (real[field] or 0) then
      repaired = repaired + 1
      call("HSET", c.k.tally, field, real[field] or 0)
    end
  end
  for field, n in pairs(real) do
    if not told[field] then
      repaired = repaired + 1
      call("HSET", c.k.tally, field, n)
    end
  end
  return { total, repaired, "" }
end })
`;
