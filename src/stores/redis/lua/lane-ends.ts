/**
 * Jobs with lanes that ended as a set give back what they held of the gates of their keys. Most have one gate, of which
 * nothing but a count is kept; a gate about which more is known moves as after any other change (parked.ts).
 */

export const laneEndsLua = String.raw`
-- The key of the gate of a job that has one, and its use; nothing for several. last: what the spec of the last one has
-- between its time and its lane (before), and between its lane and the key (middle): most have the same.
local function gateOf(work, last, spec)
  local at = find(spec, last.before, 1, true)
  local stop = at and find(spec, US, at + #last.before, true)
  if stop and find(spec, last.middle, stop, true) == stop then
    local keyAt = stop + #last.middle
    local key = sub(spec, keyAt, find(spec, US, keyAt, true) - 1)
    if not find(key, RS, 1, true) then return key, last.use end
  end
  local gates, before = gatesIn(spec)
  if not gates then return nil end
  local key, use = onlyUse(last, gates)
  if not key then noteHeld(work, { state = RUNNING, laneGates = gates }, -1)
  elseif before then
    local step = match(spec, "^[^\31]*\31([^\31]*)", find(spec, before, 1, true) + #before)
    last.before, last.middle, last.use = before, US .. step .. US .. use.prefix, use
  end
  return key, use
end

-- What these jobs held, by key, where that is one gate each; of others it is noted.
local function heldBy(work, specs)
  local freed, keys, last = {}, {}, { before = HOLE, middle = "", use = false }
  for i = 1, #specs do
    local key, use = gateOf(work, last, specs[i] or "")
    if key then
      if freed[key] then freed[key] = freed[key] + use.weight
      else
        keys[#keys + 1] = key
        freed[key] = use.weight
      end
    end
  end
  return freed, keys
end

-- Gates of which a permit came back, and at which lanes wait, are opened.
local function noteWakes(c, work, keys)
  if #keys == 0 or call("EXISTS", c.k.parked) == 0 then return end
  for _, key in ipairs(keys) do
    local found = call("ZRANGE", c.k.parked, "[" .. key .. US, "+", "BYLEX", "LIMIT", "0", "1")[1]
    if found and find(found, key .. US, 1, true) == 1 then work.wakes[key] = true end
  end
end

local function returnHeld(c, work, keys, freed)
  local set, gone, returned, keyed = {}, {}, {}, c.keyed or NONE
  local texts = fetch("HMGET", c.k.use, keys)
  for i = 1, #keys do
    local key = keys[i]
    local by, held = freed[key], texts[i] and not keyed[key] and tonumber(texts[i])
    if not held then work.held[key] = (work.held[key] or 0) - by
    else
      returned[#returned + 1] = key
      if held > by then add2(set, key, num(held - by)) else gone[#gone + 1] = key end
    end
  end
  many("HDEL", c.k.use, gone)
  many("HSET", c.k.use, set)
  noteWakes(c, work, returned)
end

-- Ends as a set of jobs of these routes that have gates of keys. Where lanes of such a route are open, their first jobs may
-- go on; a lane whose first job is of another route was told of when it came to show that.
local function freeGates(c, routes)
  local work = workOf(c)
  local freed, keys = heldBy(work, fetch("HMGET", c.k.spec, c.gated))
  c.gated = nil
  returnHeld(c, work, keys, freed)
  for route in pairs(routes) do
    if call("EXISTS", c.k.open .. route) == 1 then push(c, "shown", route) end
  end
  tellShown(c)
end
`;
