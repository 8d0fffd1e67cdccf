/**
 * Looking at jobs: by id, in lists, their counts, their log lines, and what was told. A list looks at no more than it was asked to and says where
 * to go on, so a filter that matches nothing never holds the server for long.
 *
 *  read_jobs   known routes (mark:count), ids -> routes, per id: handle, spec, state ("" where there is none)
 *  find_jobs   known routes, below, max, look max, statuses, tag, queue, name, reason given, reason, created after, created before
 *              -> routes, looked at, where to go on ("" at the end), per job: handle, spec, state
 *  tally       -> routes, route:status, count ..
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

-- Handles below a seq, newest first: of a tag, or of all jobs by pages of seqs.
local function below(c, tag, seq, wanted)
  if tag ~= "" then return call("ZREVRANGEBYSCORE", c.k.tag .. tag, "(" .. num(seq), "-inf", "LIMIT", 0, wanted) end
  local handles = {}
  local from = num(floor((seq - 1) / PAGE))
  for _, page in ipairs(call("ZREVRANGEBYSCORE", c.k.pages, from, "-inf", "LIMIT", 0, math.ceil(wanted / PAGE) + 1)) do
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
  local isEnd = false
  while #found < max and looked < lookMax and not isEnd do
    local handles = below(c, tag, seq, 32)
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
  return { (routesFor(c, nextArg(c))), call("HGETALL", c.k.tally) }
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
