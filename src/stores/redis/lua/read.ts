/**
 * Looking at jobs: by id, in lists, their counts, their log lines, and what was told. A list looks at no more than it was asked to and says where
 * to go on, so a filter that matches nothing never holds the server for long.
 *
 *  read_jobs   known routes (mark:count), ids -> routes, per id: handle, spec, state ("" where there is none)
 *  find_jobs   known routes, below, max, look max, statuses, tag, queue, name, reason given, reason, created after, created before
 *              -> routes, looked at, where to go on ("" at the end), per job: handle, spec, state
 *  tally       -> routes, then per route: number, its ready jobs, and route:status, count .. (t: all its jobs)
 *  read_feed   after, max -> end of the feed, per record: number-1, time, events
 *  read_trail  id, after, max -> lines
 */
export const readLua = String.raw`
local function records(c, handles, out)
  local specs, states = fetch("HMGET", c.k.spec, handles), fetch("HMGET", c.k.state, handles)
  for i, h in ipairs(handles) do
    local n, spec = #out, specs[i]
    out[n + 1], out[n + 2], out[n + 3] = spec and h or "", spec or "", spec and states[i] or ""
  end
  return out
end

redis.register_function({ function_name = "mr1_read_jobs", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  local listed = routesFor(c, nextArg(c))
  local ids = slice(args, c.i, #args)
  local handles = fetch("HMGET", c.k.ids, ids)
  for i = 1, #ids do handles[i] = handles[i] or "" end
  return { listed, records(c, handles, {}) }
end })

local FEW = 2000

-- How jobs of these statuses are found without looking at all others: bad endings by their indexes, which are in the order of lists; live jobs by theirs,
-- read whole and put in order, where they are few. Nothing where there is no such way.
local function indexesOf(c, statuses)
  local k, bySeq, others, few, size = c.k, {}, {}, {}, 0
  for i = 1, #statuses do
    local status = sub(statuses, i, i)
    if isBad(status) then bySeq[#bySeq + 1] = k.bad .. status
    elseif status == SCHEDULED then others[#others + 1] = k.due
    elseif status == RUNNING then others[#others + 1] = k.lease
    elseif status == READY then
      for route = 1, c.routes do others[#others + 1] = k.ready .. num(route) end
    elseif status == COMPLETED then return nil end
  end
  for _, key in ipairs(others) do size = size + call("ZCARD", key) end
  if size > FEW then return nil end
  for _, key in ipairs(others) do
    for _, h in ipairs(call("ZRANGE", key, 0, -1)) do few[#few + 1] = h end
  end
  table.sort(few)
  return { bySeq = bySeq, few = few, at = #few }
end

local function isNewer(a, b) return a > b end

-- Handles below a seq, newest first: of a tag, of the indexes found for the statuses, or of all jobs by pages of seqs.
local function below(c, tag, indexes, seq, wanted)
  if tag ~= "" then return call("ZREVRANGEBYSCORE", c.k.tag .. tag, "(" .. num(seq), "-inf", "LIMIT", 0, wanted) end
  local handles = {}
  if indexes then
    local few, limit = indexes.few, handleOf(seq)
    while indexes.at > 0 and few[indexes.at] >= limit do indexes.at = indexes.at - 1 end
    for i = indexes.at, math.max(1, indexes.at - wanted + 1), -1 do handles[#handles + 1] = few[i] end
    for _, key in ipairs(indexes.bySeq) do
      for _, h in ipairs(call("ZREVRANGEBYSCORE", key, "(" .. num(seq), "-inf", "LIMIT", 0, wanted)) do handles[#handles + 1] = h end
    end
    table.sort(handles, isNewer)
    return slice(handles, 1, min(wanted, #handles))
  end
  local from, open = floor((seq - 1) / PAGE), floor((c.seq + 1) / PAGE)
  local pages = call("ZREVRANGEBYSCORE", c.k.pages, num(from), "-inf", "LIMIT", 0, math.ceil(wanted / PAGE) + 1)
  if from >= open then table.insert(pages, 1, open) end
  for _, page in ipairs(pages) do
    for at = min(seq - 1, page * PAGE + PAGE - 1), page * PAGE, -1 do handles[#handles + 1] = handleOf(at) end
    if #handles >= wanted then break end
  end
  return handles
end

local function routesNamed(c, queue, name)
  if queue == "" and name == "" then return nil end
  local wanted = {}
  for number, route in ipairs(call("LRANGE", c.k.route, 0, -1)) do
    local q, n = unpack(split(route, US))
    wanted[num(number)] = (queue == "" or q == queue) and (name == "" or n == name)
  end
  return wanted
end

redis.register_function({ function_name = "mr1_find_jobs", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local listed = routesFor(c, nextArg(c))
  local seq, max, lookMax, statuses, tag = tonumber(nextArg(c)), tonumber(nextArg(c)), tonumber(nextArg(c)), nextArg(c), nextArg(c)
  local queue, name, hasReason, reason, createdAfter, createdBefore = nextArg(c), nextArg(c), nextArg(c) == "1", nextArg(c), nextArg(c), nextArg(c)
  local routes, looked, found = routesNamed(c, queue, name), 0, {}
  if seq > c.seq + 1 then seq = c.seq + 1 end
  local isEnd, indexes = false, tag == "" and indexesOf(c, statuses) or nil
  while #found < max and looked < lookMax and not isEnd do
    local handles = below(c, tag, indexes, seq, 64)
    isEnd = #handles == 0
    local chunk = {}
    for i = 1, #handles do
      chunk[#chunk + 1] = handles[i]
      if #chunk == 64 or i == #handles then
        c.jobs = {}
        loadJobs(c, chunk)
        for _, h in ipairs(chunk) do
          local job = c.jobs[h]
          if looked == lookMax or #found == max then break end
          seq = seqOf(h)
          if job then
            looked = looked + 1
            if find(statuses, job.status, 1, true) and (not routes or routes[job.route]) and (not hasReason or job.reason == reason)
              and (createdAfter == "" or tonumber(job.created) > tonumber(createdAfter)) and (createdBefore == "" or tonumber(job.created) < tonumber(createdBefore)) then
              found[#found + 1] = h
            end
          end
        end
        chunk = {}
        if looked == lookMax or #found == max then break end
      end
    end
  end
  return { listed, looked, isEnd and "" or num(seq), records(c, found, {}) }
end })

redis.register_function({ function_name = "mr1_tally", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  local ready = {}
  for route = 1, c.routes do ready[route] = call("ZCARD", c.k.ready .. num(route)) end
  return { (routesFor(c, nextArg(c))), ready, call("HGETALL", c.k.tally) }
end })

redis.register_function({ function_name = "mr1_read_feed", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  local from, max, out = tonumber(nextArg(c)), nextArg(c), {}
  if from < 0 or tonumber(max) == 0 then return { num(c.feed), out } end
  for i, entry in ipairs(call("XRANGE", c.k.feed, num(from + 1) .. "-0", "+", "COUNT", max)) do
    out[i * 3 - 2], out[i * 3 - 1], out[i * 3] = entry[1], entry[2][2], entry[2][4]
  end
  return { num(c.feed), out }
end })

redis.register_function({ function_name = "mr1_read_trail", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  local h = call("HGET", c.k.ids, nextArg(c))
  local from, max = tonumber(nextArg(c)), tonumber(nextArg(c))
  if not h or max == 0 then return {} end
  return call("LRANGE", c.k.trail .. h, from, from + max - 1)
end })

redis.register_function({ function_name = "mr1_now", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  return { c.at, num(floor(c.fence / FENCES)) }
end })
`;
