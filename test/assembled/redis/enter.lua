-- connection/enter
module(function()
local init, keysOf, lives, loadGates, num, READS = M.init, M.keysOf, M.lives, M.loadGates, M.num, M.READS
local seqOf, serve, timeOf = M.seqOf, M.serve, M.timeOf

local FENCES = 4294967296
-- A window of 37 hours; a job would have to be claimed 16 times in every millisecond to reach the floor of a later
-- entry.
local SINCE_MS, WINDOW_MS, FENCES_PER_MS = 1767225600000, 134217728, 16
-- The numbers of the feed begin above all that an earlier entry can have given too, so that no reader waits after a
-- number that was lost.
local FEED_PER_MS = 1024

local function fieldOf(section, field) return match(call("INFO", section), field .. ":([^\r\n]*)") or "" end

local function isForeign(k)
  local kind = call("TYPE", k.meta).ok
  if kind == "hash" then
    local m = call("HMGET", k.meta, "kind", "version")
    return m[1] ~= "millrace" or not tonumber(m[2] or "")
  end
  if kind ~= "none" then return true end
  return call("EXISTS", k.spec, k.state, k.ids, k.feed, k.doc, k.due, k.lease, k.page, k.gate, k.line) > 0
end

-- A right that is missing would stop a function between two writes; so each family of commands is tried before anything
-- depends on it.
local function proveRights(tag, k)
  local probe = tag .. ":probe"
  local writes =
    { { "HSET", "a", "b" }, { "ZADD", 1, "a" }, { "SADD", "a" }, { "RPUSH", "a" }, { "XADD", "1-1", "a", "b" } }
  for _, write in ipairs(writes) do
    call(write[1], probe, unpack(write, 2))
    call("UNLINK", probe)
  end
  call("PUBLISH", k.hint, "")
end

-- What is to be remembered of a store. The newest record of the feed, which is never pruned, has the last seq and
-- number; where a hand took it away, all jobs are looked at.
local function readLife(k)
  local last = call("XREVRANGE", k.feed, "+", "-", "COUNT", 1)[1]
  local life, pages = { feed = 0, seq = 0, now = 0, ahead = 0, routes = {}, laned = {}, kept = {}, keptCount = 0 }, {}
  if last and tonumber(last[2][6]) then
    life.feed, life.seq = tonumber(match(last[1], "^%d+")), tonumber(last[2][6])
    -- What was written while the server's clock was ahead would else wait until that time comes again.
    life.now = tonumber(last[2][2]) or 0
    return life
  end
  for _, h in ipairs(call("HVALS", k.ids)) do
    local seq = seqOf(h)
    if seq > life.seq then life.seq = seq end
    pages[floor(seq / PAGE)] = (pages[floor(seq / PAGE)] or 0) + 1
  end
  call("UNLINK", k.pages, k.page)
  -- The page that was being filled is not counted on; the next job begins another.
  if life.seq > 0 then life.seq = floor(life.seq / PAGE) * PAGE + PAGE - 1 end
  for page, jobs in pairs(pages) do
    call("HSET", k.page, page, jobs)
    call("ZADD", k.pages, page, page)
  end
  if call("EXISTS", k.feed) == 1 then
    local stream = call("XINFO", "STREAM", k.feed)
    for i = 1, #stream, 2 do
      if stream[i] == "last-generated-id" then life.feed = tonumber(match(stream[i + 1], "^%d+")) end
    end
  end
  return life
end

-- Allowed without memory: a process that cannot enter cannot prune either.
redis.register_function({
  function_name = "mr1_enter",
  flags = { "allow-oom" },
  callback = function(keys, args)
    if not call then init() end
    local tag, k = keys[1], keysOf(keys[1])
    local known, version = tonumber(args[1]), tonumber(args[2])
    if isForeign(k) then return redis.error_reply("MRFOREIGN keys of another program") end
    local m = call("HMGET", k.meta, "version", "token", "epoch", "partitions")
    if m[1] and tonumber(m[1]) > version then return redis.error_reply("MRNEWER layout " .. m[1]) end
    local mark, wanted = match(args[4], "^([?!]?)(%d+)$")
    if mark == "!" and not m[4] then return redis.error_reply("MRABSENT") end
    local partitions = m[4] or wanted
    if mark ~= "?" and wanted ~= "0" and wanted ~= partitions then
      return redis.error_reply("MRPARTITIONS " .. partitions)
    end
    proveRights(tag, k)
    local server = fieldOf("server", "run_id") .. "-" .. fieldOf("replication", "master_replid") .. "-"
    local epoch = tonumber(m[3] or 0)
    if not m[1] then call("HSET", k.meta, "kind", "millrace", "version", num(version), "partitions", partitions) end
    local alive, isSame, feed = lives[tag] or {}, sub(m[2] or "", 1, #server) == server, 0
    local life = isSame and alive[m[2]]
    local isKnown = life
    life = life or readLife(k)
    if not isSame then
      -- A caller that knows a higher epoch has seen writes that are gone.
      if known > epoch then epoch = known end
      local ms = max(0, timeOf(args[3] or "", life) - SINCE_MS)
      epoch, feed = max(epoch + 1, floor(ms / WINDOW_MS)), ms * FEED_PER_MS
      call("HSET", k.meta, "epoch", num(epoch), "fence", num(epoch * FENCES + ms % WINDOW_MS * FENCES_PER_MS))
    end
    if not isKnown then
      -- The time distinguishes what stands under one tag in several databases of the server, or was copied.
      local t = call("TIME")
      life.feed = max(life.feed, feed)
      local token = server .. t[1] .. "." .. t[2]
      call("HSET", k.meta, "token", token)
      loadGates(k, life, num(timeOf(args[3] or "", life)))
      alive[token] = life
      lives[tag] = alive
    end
    -- Short sorted sets, sets and hashes are kept as lists that are searched from their head: 2 to 3 us per job of a
    -- claim by
    -- 100. One long entry, which no clock ever reaches, keeps these as trees from the beginning.
    call("ZADD", k.lease, "+inf", LONG_ENTRY)
    call("HSET", k.page, "-", LONG_ENTRY)
    call("HSET", k.use, LONG_ENTRY, "0")
    call("SADD", k.one, LONG_ENTRY)
    return { num(epoch), partitions }
  end,
})

serve("now", READS, function(c) return { c.at, num(floor(c.fence / FENCES)), num(c.ahead) } end)

end)
