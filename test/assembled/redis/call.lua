-- library/call
module(function()
local num, push, readFields = M.num, M.push, M.readFields

local function init()
  call, fmt, find, sub, byte, match = redis.call, string.format, string.find, string.sub, string.byte, string.match
  concat, floor, min, max = table.concat, math.floor, math.min, math.max
end

local KEYS = "meta route spec state ids due lease clock keep results feed counts uniq held doc docs "
  .. "docttl docdue page pages hint unreadable gate line lane waits use one opens top keeping wake"
local names = {}
local function keysOf(tag)
  local k = names[tag]
  if k then return k end
  k = {}
  for word in string.gmatch(KEYS, "%a+") do
    k[word] = tag .. ":" .. word
  end
  k.ready, k.ends, k.ended, k.bad = tag .. ":ready:", tag .. ":ends:", tag .. ":end:", tag .. ":bad:"
  k.tag, k.log, k.dueOf = tag .. ":tag:", tag .. ":log:", tag .. ":due:"
  k.frames, k.summary = tag .. ":frames:", tag .. ":summary:"
  k.open, k.idle = tag .. ":open:", tag .. ":idle:"
  k.journal, k.known, k.others = tag .. ":journal:", tag .. ":known:", tag .. ":others:"
  names[tag] = k
  return k
end

-- What this server process remembers of a store since somebody entered it, by tag and token: its last seq, the last
-- number of its feed, the routes it has met and its gates, which every call would otherwise read or write once more. A
-- restart, a failover, a flush or a new build of the library leaves it empty or different from what the data says, and
-- every call is then refused until somebody has entered again and raised the epoch where writes may be lost
-- (enter.lua.ts).
local lives = {}

-- The platform's time where a test gives one, else the server's. Where that was set back, the store's own goes on from
-- where it was at the server's pace, ahead of it: a time that stood still would freeze delays, retries and leases.
local function timeOf(given, life)
  if given ~= "" then return tonumber(given) end
  local t = call("TIME")
  local ms = t[1] * 1000 + floor(t[2] / 1000)
  local now = ms + life.ahead
  if now < life.now then
    life.ahead = life.now - ms
    now = life.now
  end
  life.now = now
  return now
end

-- keys: the tag. args: time or nothing, sender, then the call's own, from c.i on. Answers the call, or nothing and a
-- refusal.
local function begin(keys, args)
  if not call then init() end
  local tag, k = keys[1], keysOf(keys[1])
  local m = call("HMGET", k.meta, "token", "fence")
  local life = m[1] and lives[tag] and lives[tag][m[1]]
  if not life then return nil, redis.error_reply("MRENTER the store must be entered first") end
  local now = timeOf(args[1], life)
  return {
    k = k,
    args = args,
    i = 3,
    now = now,
    at = num(now),
    -- By how much the store's clock is ahead of the server's.
    ahead = args[1] == "" and life.ahead or 0,
    sender = args[2],
    fence = tonumber(m[2]),
    life = life,
    seq = life.seq,
    order = {},
    bundles = {},
    zadd = {},
    counts = {},
  }
end

-- The tables of a call that reads and changes jobs, keys or documents one by one; a call of plain jobs does without.
local function widen(c)
  if c.jobs then return end
  c.jobs, c.dirty, c.ids, c.uniq, c.docs, c.changed = {}, {}, {}, {}, {}, { ids = {}, uniq = {}, docs = {} }
  c.bundleOf, c.zrem, c.gone, c.goneIds, c.unlinked = {}, {}, {}, {}, {}
end

-- What a function of the library may do: read alone; write; write also without memory, as what makes room must.
local READS, WRITES, FREES = { "no-writes" }, {}, { "allow-oom" }

local function serve(name, flags, work)
  redis.register_function({
    function_name = "mr1_" .. name,
    flags = flags,
    callback = function(keys, args)
      local c, refused = begin(keys, args)
      if not c then return refused end
      widen(c)
      -- What only reads cannot keep a record as unreadable: it answers the handles of those it met.
      if flags == READS then c.unreadable = {} end
      return work(c)
    end,
  })
end

-- Changes an entry of what the call has in view of a hash (c.ids, c.uniq, c.docs); false takes it out.
local function change(c, view, key, value)
  local entries, changed = c[view], c.changed[view]
  local old, wasChanged = entries[key], changed[key]
  entries[key], changed[key] = value, true
  if c.undo then push(c, "undo", function()
    entries[key], changed[key] = old, wasChanged
  end) end
end

local function nextArg(c)
  local i = c.i
  c.i = i + 1
  return c.args[i]
end

local function nextNumber(c) return tonumber(nextArg(c)) end

local function nextFlag(c) return nextArg(c) == "1" end

-- Shapes and templates that differ from call to call by their times alone are kept with what is remembered of the
-- store, up to a number.
local KEPT_MAX = 1000

local function recall(c, key) return c.life.kept[key] end

local function keep(c, key, value)
  local life = c.life
  if life.keptCount == KEPT_MAX then
    life.kept, life.keptCount = {}, 0
  end
  life.kept[key], life.keptCount = value, life.keptCount + 1
end

-- The content of a route, where it is kept: a job of another route belongs to no queue.
local function contentOf(c, route)
  local met = c.life.routes
  if not met[route] then met[route] = call("HGET", c.k.route, route) or nil end
  return met[route]
end

-- What the new jobs of a call look like: how many shapes (argument-text.ts), and each. Answers a refusal where a route
-- has another content under its number, before anything is written. A shape that is recalled was met before, and its
-- route is there.
local function readShapes(c)
  c.shapes, c.plain = {}, {}
  for n = 1, nextNumber(c) do
    local text = nextArg(c)
    local shape = recall(c, text)
    if not shape then
      shape = readFields(text, "shape")
      shape.text = text
      local route, content = shape.route, shape.content
      c.contents = c.contents or {}
      local known = c.contents[route] or contentOf(c, route)
      if known and known ~= content then return redis.error_reply("MRROUTE " .. route) end
      c.contents[route] = content
    end
    c.shapes[n] = shape
  end
end

-- All routes: number, queue, name, capabilities.
local function eachRoute(c)
  local flat, i = call("HGETALL", c.k.route), -1
  return function()
    i = i + 2
    if flat[i] then return flat[i], match(flat[i + 1], "^([^\31]*)\31([^\31]*)\31([^\31]*)") end
  end
end

-- A job of this route is there: its content is kept from now on.
local function useRoute(c, route)
  if c.life.routes[route] or (c.newRoutes and c.newRoutes[route]) then return end
  c.newRoutes = c.newRoutes or {}
  c.newRoutes[route] = c.contents[route]
  if c.undo then push(c, "undo", function() c.newRoutes[route] = nil end) end
end

M.init, M.keysOf, M.lives, M.timeOf, M.begin, M.widen = init, keysOf, lives, timeOf, begin, widen
M.READS, M.WRITES, M.FREES, M.serve, M.change, M.nextArg = READS, WRITES, FREES, serve, change, nextArg
M.nextNumber, M.nextFlag, M.recall, M.keep, M.contentOf = nextNumber, nextFlag, recall, keep, contentOf
M.readShapes, M.eachRoute, M.useRoute = readShapes, eachRoute, useRoute
end)
