/**
 * What every function of the library shares: the names of keys, the call's time, its entry check, and commands over many values. Each call works
 * on one table `c` that it fills and writes at its end (write.ts), so that a mistake before the writing leaves the store as it was.
 *
 *  all keys of a partition begin with its hash tag, {prefix:0}
 *
 *  meta    hash    kind, version, token, epoch, fence, partitions,   route    list    queue US name; its place is the route's number
 *                  routes, and per route: queue US name -> number    tally    hash    route:status -> count, and route:t of all its jobs
 *  spec    hash    handle -> spec                                    bad:s    zset    jobs that ended with status s, not completed, by seq
 *  state   hash    handle -> state; absent until a job first moves
 *  ids     hash    id -> handle                                      uniq     hash    key -> handle US hold US until US id
 *  ready:r zset    ready jobs of route r by rank                     held     zset    keys held by time, by their end
 *  due     zset    scheduled jobs by due time                        doc      hash    kind US id -> version US due US expires US body
 *  lease   zset    running jobs by their earliest clock              docs     zset    kind US id, all with score 0
 *  clock   zset    waiting jobs with a deadline or ttl, likewise     docttl   zset    documents by their expiry
 *  end:s:m list    what ended with status s in minute m              tag:t    zset    jobs with tag t by seq
 *  ends:s  zset    the minutes of status s                           trail:h  list    at US line
 *  keep    zset    finished jobs with a keeping time of their own    page     hash    seq / 256 -> jobs left there; pages: zset of these,
 *  feed    stream  n-1: a = time, b = groups of events, s = seq                       without the last, which is still being filled
 *
 * A handle is a job's seq as text whose byte order is its numeric order: a letter for the number of digits, then the digits.
 */
import { arrows, jobStates, stateCodes } from "../../../model/job-state.ts";

const allowed = jobStates.flatMap((from) =>
  [from, ...arrows[from]].map((to) => `["${stateCodes[from]}${stateCodes[to]}"] = true`),
);

/** A Lua pattern for so many fields, each with its end. */
export const fields = (count: number): string => String.raw`([^\31]*)\31`.repeat(count);

export const baseLua = String.raw`
local US, RS = "\31", "\30"
-- While a library is loaded, neither redis.call nor Lua's own modules are there: the first call of any function sets these.
local call, fmt, find, sub, byte, char, match, concat, floor, min
local function init()
  call, fmt, find, sub, byte, char, match = redis.call, string.format, string.find, string.sub, string.byte, string.char, string.match
  concat, floor, min = table.concat, math.floor, math.min
end
local CHUNK, PAGE, FENCES, MINUTE = 2000, 256, 4294967296, 60000
local SCHEDULED, READY, RUNNING, COMPLETED = "1", "2", "3", "5"
local ARROWS = { ${allowed.join(", ")} }

-- Exact up to 2^53, where Lua's own conversion rounds.
local function num(n) return fmt("%.0f", n) end

local function handleOf(seq)
  local s = num(seq)
  return char(96 + #s) .. s
end

local function seqOf(h) return tonumber(sub(h, 2)) end

local function push(lists, key, value)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  list[#list + 1] = value
end

local function push2(lists, key, one, two)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  list[#list + 1] = one
  list[#list + 1] = two
end

local function many(command, key, list)
  local n = #list
  for i = 1, n, CHUNK do call(command, key, unpack(list, i, min(i + CHUNK - 1, n))) end
end

local function fetch(command, key, list)
  local n = #list
  if n == 0 then return {} end
  if n <= CHUNK then return call(command, key, unpack(list)) end
  local all = {}
  for i = 1, n, CHUNK do
    for _, value in ipairs(call(command, key, unpack(list, i, min(i + CHUNK - 1, n)))) do all[#all + 1] = value end
  end
  return all
end

local function slice(list, from, to)
  local part = {}
  for i = from, to do part[i - from + 1] = list[i] end
  return part
end

local function split(text, mark)
  local parts, at = {}, 1
  while true do
    local stop = find(text, mark, at, true)
    if not stop then break end
    parts[#parts + 1] = sub(text, at, stop - 1)
    at = stop + 1
  end
  parts[#parts + 1] = sub(text, at)
  return parts
end

local names = {}
local function keysOf(tag)
  local k = names[tag]
  if k then return k end
  k = {}
  for word in string.gmatch("meta spec state ids due lease clock keep feed route tally uniq held doc docs docttl page pages hint", "%a+") do
    k[word] = tag .. ":" .. word
  end
  k.ready, k.ends, k.ended, k.bad = tag .. ":ready:", tag .. ":ends:", tag .. ":end:", tag .. ":bad:"
  k.tag, k.trail = tag .. ":tag:", tag .. ":trail:"
  names[tag] = k
  return k
end

-- What this server process remembers of a store since somebody entered it, by tag and token: its last seq and the last number of its feed, which every
-- call would otherwise write once more. A restart, a failover, a flush or a new build of the library leaves it empty or different from what the
-- data says, and every call is then refused until somebody has entered again and raised the epoch where writes may be lost (enter.ts).
local lives = {}
local lastNow = 0

-- The platform's time where a test gives one, else the server's, which never goes back.
local function timeOf(given)
  if given ~= "" then return tonumber(given) end
  local t = call("TIME")
  local ms = t[1] * 1000 + floor(t[2] / 1000)
  if ms < lastNow then return lastNow end
  lastNow = ms
  return ms
end

local function lifeOf(tag, token)
  local alive = lives[tag]
  return alive and token and alive[token]
end

local function notEntered() return redis.error_reply("MRENTER the store must be entered first") end

-- keys: the tag. args: time or nothing, sender, then the call's own, from c.i on: with names, first their number and the routes that the call
-- names. Answers the call, or nothing and a refusal.
local function begin(keys, args, hasNames)
  if not call then init() end
  local k, named, m = keysOf(keys[1]), hasNames and tonumber(args[3]) or 0, nil
  if named == 0 then m = call("HMGET", k.meta, "token", "fence", "routes")
  else
    m = call("HMGET", k.meta, "token", "fence", "routes", unpack(args, 4, min(3 + named, 3 + CHUNK)))
    for i = 4 + CHUNK, 3 + named do m[i] = call("HGET", k.meta, args[i]) end
  end
  local life = lifeOf(keys[1], m[1])
  if not life then return nil, notEntered() end
  local now = timeOf(args[1])
  local c = {
    k = k, args = args, i = 3, now = now, at = num(now), sender = args[2], fence = tonumber(m[2]), life = life, seq = life.seq, feed = life.feed,
    routes = tonumber(m[3]), order = {}, groups = {}, zadd = {}, tally = {},
  }
  if hasNames then
    c.i, c.names, c.numbers, c.shapes = 4 + named, args, m, {}
  end
  return c
end

-- The tables of a call that reads and changes jobs, keys or documents one by one; a call of plain jobs does without.
local function widen(c)
  if c.jobs then return end
  c.jobs, c.dirty, c.ids, c.idsDirty, c.uniq, c.uniqDirty, c.docs, c.docsDirty = {}, {}, {}, {}, {}, {}, {}, {}
  c.groupOf, c.zrem, c.goneSpecs, c.goneStates, c.goneIds, c.trails = {}, {}, {}, {}, {}, {}
end

local function beginWide(keys, args)
  local c, refused = begin(keys, args)
  if c then widen(c) end
  return c, refused
end

-- What the caller does not know of routes. known: mark and count of those it does. Numbers hold under one entry, of which the floor of its fences is
-- the mark: under another one the mark and all routes are listed, and the numbers that came with the call mean nothing.
local function routesFor(c, known)
  local mark, n = match(known, "^(%d+):(%d+)$")
  local here = num(c.fence)
  if mark == here then
    n = tonumber(n)
    return n < c.routes and call("LRANGE", c.k.route, n, -1) or {}, true
  end
  local all = call("LRANGE", c.k.route, 0, -1)
  table.insert(all, 1, here)
  return all, false
end

local function nextArg(c)
  local i = c.i
  c.i = i + 1
  return c.args[i]
end

-- The earliest of some times as texts; "" is none.
local function earliest(a, b, d)
  local best = a
  if b ~= "" and (best == "" or tonumber(b) < tonumber(best)) then best = b end
  if d and d ~= "" and (best == "" or tonumber(d) < tonumber(best)) then best = d end
  return best
end

-- "+ms" from now or "=instant".
local function instant(c, due)
  local n = tonumber(sub(due, 2))
  if byte(due) == 43 then return c.now + n end
  return n
end

local function after(c, ms)
  if ms == "" then return "" end
  return num(c.now + ms)
end

local function headOf(key)
  local score = call("ZRANGE", key, 0, 0, "WITHSCORES")[2]
  return score and score ~= "inf" and tonumber(score) or nil
end

-- The earliest clock of any live job as text; "" without one.
local function nextClock(c)
  local k = c.k
  local best = headOf(k.due)
  local lease = headOf(k.lease)
  if lease and (not best or lease < best) then best = lease end
  -- Read before, and only a call that changed jobs one by one can have moved it.
  local clock = c.clockHead
  if clock == nil or c.jobs then clock = headOf(k.clock) end
  if clock and (not best or clock < best) then best = clock end
  return best and num(best) or ""
end

-- Whether a clock of a waiting job has rung.
local function hasRung(c)
  c.clockHead = headOf(c.k.clock) or false
  return c.clockHead and c.clockHead <= c.now
end

-- Ready jobs are counted by their index, and running ones are all the others, so that neither claim nor hand-back counts anything.
local function count(c, route, status, by)
  local tally, all = c.tally, route .. ":t"
  tally[all] = (tally[all] or 0) + by
  if status == READY or status == RUNNING then return end
  local field = route .. ":" .. status
  tally[field] = (tally[field] or 0) + by
end

local function leavePage(c, h)
  local page, pages = floor(seqOf(h) / PAGE), c.pages or {}
  c.pages = pages
  pages[page] = (pages[page] or 0) - 1
end

local function newGroup(c, key, kind, status, extra)
  local g = { key, n = 1, kind = kind, status = status, extra = extra, place = #c.order + 1 }
  c.groups[key] = g
  c.order[g.place] = g
  return g
end

-- Tells one change of one job. A group joins ids with the same event; inside a job the order of telling is kept.
local function tellGroup(c, key, id, kind, status, extra)
  local g, last = c.groups[key], c.groupOf[id]
  if not g or (last and last >= g.place) then g = newGroup(c, key, kind, status, extra) end
  g.n = g.n + 1
  g[g.n] = id
  c.groupOf[id] = g.place
  if c.undo then
    c.undo[#c.undo + 1] = function()
      g[g.n] = nil
      g.n = g.n - 1
      c.groupOf[id] = last
    end
  end
end
`;
