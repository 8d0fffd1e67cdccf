/**
 * Reads of jobs: by id, in lists, their counts, their log lines, and their events. A list looks at no more than it
 * was asked to and says where to go on, so a filter that matches nothing never holds the server for long. A route is
 * given as number and content.
 *
 *  read_jobs   ids -> routes of these jobs, per id: handle, spec, state ("" where there is none), the ids of jobs
 *              that cannot be read or were kept as unreadable
 *  find_jobs   below, max, look max, states, tag, queue, name, capabilities given, capabilities, reason given, reason,
 *              created after, created before, only those that keep their lanes
 *              -> routes of these jobs, looked at, where to go on ("" at the end), per job: handle, spec, state;
 *              unreadable handles
 *  routes      -> all routes
 *  count_jobs  -> all routes, the ready jobs of each in this order, and route:state, count .. (t: all its jobs)
 *  heads       -> now, all routes, per route with ready jobs: route, due time of the first
 *  read_feed   after, max -> end of the feed, per record: number-1, time, events
 *  read_logs   id, after, max -> lines
 */
import { specFields } from "../packing/packed-fields.ts";
import { pickPattern } from "../packing/lua-fields.ts";
import { lua, luaModule } from "../library/lua.ts";

export const readLua = luaModule({
  name: "jobs/read",
  takes: [
    "add2 eachRoute fetch handleOf isBad loadJobs nextArg nextFlag nextNumber num READS seqOf serve",
    "slice",
  ],
  gives: ["recordsOf"],
  source: lua`
local ROUTE = ${pickPattern(["route"], specFields)}

-- Handle, spec and state of each; "" where there is none.
local function recordsOf(c, handles)
  local out = {}
  local specs, states = fetch("HMGET", c.k.spec, handles), fetch("HMGET", c.k.state, handles)
  for i, h in ipairs(handles) do
    local n, spec = #out, specs[i]
    out[n + 1], out[n + 2], out[n + 3] = spec and h or "", spec or "", spec and states[i] or ""
  end
  return out
end

local function routesOf(c, records)
  local out, seen = {}, {}
  for i = 2, #records, 3 do
    local route = match(records[i], ROUTE)
    if route and not seen[route] then
      seen[route] = true
      add2(out, route, call("HGET", c.k.route, route) or "")
    end
  end
  return out
end

serve("read_jobs", READS, function(c)
  local ids, lost = slice(c.args, c.i, #c.args), {}
  local handles = fetch("HMGET", c.k.ids, ids)
  loadJobs(c, handles)
  for i, id in ipairs(ids) do
    local h = handles[i]
    if h and not c.jobs[h] then lost[#lost + 1] = id end
    handles[i] = h and c.jobs[h] and h or ""
  end
  local records = recordsOf(c, handles)
  return { routesOf(c, records), records, lost }
end)

local FEW, LOOKED_AT_ONCE = 2000, 64

local function isCounted(c, state)
  for route in eachRoute(c) do
    if tonumber(call("HGET", c.k.counts, route .. ":" .. state) or 0) > 0 then return true end
  end
end

-- How jobs with a tag or of these states are found without looking at all others: tagged ones, those that keep their
-- lanes and bad endings by their indexes, which are in the order of lists; live jobs by theirs, read whole and put in
-- order, where they are few. Nothing where there is no such way.
local function indexesOf(c, tag, states, keepsLane)
  local k, bySeq, others, few, size = c.k, {}, {}, {}, 0
  if tag ~= "" then return { bySeq = { k.tag .. tag }, few = few, at = 0 } end
  if keepsLane then return { bySeq = { k.keeping }, few = few, at = 0 } end
  for i = 1, #states do
    local state = sub(states, i, i)
    if isBad(state) then
      bySeq[#bySeq + 1] = k.bad .. state
    elseif state == SCHEDULED then
      for _, route in ipairs(call("ZRANGE", k.due, 0, -1)) do
        others[#others + 1] = k.dueOf .. route
      end
    elseif state == RUNNING then
      others[#others + 1] = k.lease
    elseif state == READY then
      for route in eachRoute(c) do
        others[#others + 1] = k.ready .. route
      end
    elseif isCounted(c, state) then
      return nil
    end
  end
  for _, key in ipairs(others) do
    size = size + call("ZCARD", key)
  end
  if size > FEW then return nil end
  for _, key in ipairs(others) do
    for _, h in ipairs(call("ZRANGE", key, 0, -1)) do
      -- An entry that is no handle has no place in a list.
      if match(h, "^%l%d+$") then few[#few + 1] = h end
    end
  end
  table.sort(few)
  return { bySeq = bySeq, few = few, at = #few }
end

local function isNewer(a, b) return a > b end

-- Handles below a seq, newest first: of these indexes, or of all jobs by pages of seqs.
local function below(c, indexes, seq, wanted)
  local handles = {}
  if indexes then
    local few, limit = indexes.few, handleOf(seq)
    while indexes.at > 0 and few[indexes.at] >= limit do
      indexes.at = indexes.at - 1
    end
    for i = indexes.at, max(1, indexes.at - wanted + 1), -1 do
      handles[#handles + 1] = few[i]
    end
    for _, key in ipairs(indexes.bySeq) do
      local found = call("ZREVRANGEBYSCORE", key, "(" .. num(seq), "-inf", "LIMIT", 0, wanted)
      for _, h in ipairs(found) do
        handles[#handles + 1] = h
      end
    end
    table.sort(handles, isNewer)
    return slice(handles, 1, min(wanted, #handles))
  end
  local from, open = floor((seq - 1) / PAGE), floor((c.seq + 1) / PAGE)
  local pages = call("ZREVRANGEBYSCORE", c.k.pages, num(from), "-inf", "LIMIT", 0, math.ceil(wanted / PAGE) + 1)
  if from >= open then table.insert(pages, 1, open) end
  for _, page in ipairs(pages) do
    for at = min(seq - 1, page * PAGE + PAGE - 1), page * PAGE, -1 do
      handles[#handles + 1] = handleOf(at)
    end
    if #handles >= wanted then break end
  end
  return handles
end

-- Which routes a list means; nothing for all.
local function routesNamed(c, queue, name, hasRequires, requires)
  if queue == "" and name == "" and not hasRequires then return nil end
  local wanted = {}
  for route, q, n, asked in eachRoute(c) do
    wanted[route] = (queue == "" or q == queue) and (name == "" or n == name) and (not hasRequires or asked == requires)
  end
  return wanted
end

local function filterOf(c)
  local filter = { states = nextArg(c), tag = nextArg(c) }
  filter.routes = routesNamed(c, nextArg(c), nextArg(c), nextFlag(c), nextArg(c))
  filter.hasReason, filter.reason = nextFlag(c), nextArg(c)
  filter.createdAfter, filter.createdBefore = tonumber(nextArg(c)), tonumber(nextArg(c))
  filter.keepsLane = nextFlag(c)
  return filter
end

local function isMeant(filter, job)
  local createdAt = tonumber(job.createdAt)
  return find(filter.states, job.state, 1, true)
    and (not filter.routes or filter.routes[job.route])
    and (not filter.hasReason or job.reason == filter.reason)
    and (not filter.keepsLane or job.keepsLane == "1")
    and (not filter.createdAfter or createdAt > filter.createdAfter)
    and (not filter.createdBefore or createdAt < filter.createdBefore)
end

serve("find_jobs", READS, function(c)
  local seq, most, lookMax, filter = min(nextNumber(c), c.seq + 1), nextNumber(c), nextNumber(c), filterOf(c)
  local looked, found, isEnd = 0, {}, false
  local indexes = indexesOf(c, filter.tag, filter.states, filter.keepsLane)
  while #found < most and looked < lookMax and not isEnd do
    local handles = below(c, indexes, seq, LOOKED_AT_ONCE)
    isEnd = #handles == 0
    for i, h in ipairs(handles) do
      if i % LOOKED_AT_ONCE == 1 then
        c.jobs = {}
        loadJobs(c, slice(handles, i, min(i + LOOKED_AT_ONCE - 1, #handles)))
      end
      if looked == lookMax or #found == most then break end
      local job = c.jobs[h]
      seq = seqOf(h) or 0
      if job then
        looked = looked + 1
        if isMeant(filter, job) then found[#found + 1] = h end
      end
    end
  end
  local records = recordsOf(c, found)
  return { routesOf(c, records), looked, isEnd and "" or num(seq), records, c.unreadable }
end)

serve("routes", READS, function(c) return call("HGETALL", c.k.route) end)

serve("count_jobs", READS, function(c)
  local routes, ready = call("HGETALL", c.k.route), {}
  for i = 1, #routes, 2 do
    ready[#ready + 1] = call("ZCARD", c.k.ready .. routes[i])
  end
  return { routes, ready, call("HGETALL", c.k.counts) }
end)

serve("heads", READS, function(c)
  local handles, routes, out = {}, {}, {}
  for route in eachRoute(c) do
    local first = call("ZRANGE", c.k.ready .. route, 0, 0)[1]
    if first then
      handles[#handles + 1], routes[#routes + 1] = first, route
    end
  end
  loadJobs(c, handles)
  for i, h in ipairs(handles) do
    if c.jobs[h] then add2(out, routes[i], c.jobs[h].dueAt) end
  end
  return { num(c.at), call("HGETALL", c.k.route), out }
end)

serve("read_feed", READS, function(c)
  local from, most, out = nextNumber(c), nextNumber(c), {}
  local last = num(c.life.feed)
  if from < 0 or most == 0 then return { last, out } end
  for i, entry in ipairs(call("XRANGE", c.k.feed, num(from + 1) .. "-0", "+", "COUNT", most)) do
    out[i * 3 - 2], out[i * 3 - 1], out[i * 3] = entry[1], entry[2][2], entry[2][4]
  end
  return { last, out }
end)

serve("read_logs", READS, function(c)
  local h, from, most = call("HGET", c.k.ids, nextArg(c)), nextNumber(c), nextNumber(c)
  if not h or most == 0 then return {} end
  return call("LRANGE", c.k.log .. h, from, from + most - 1)
end)
`,
});
