/**
 * Jobs with lanes that ended as a set give back what they held of the gates of their keys. Most have one gate, of which
 * nothing but a count is kept; a gate about which more is known moves as after any other change (parked.ts).
 */

export const laneEndsLua = String.raw`
-- What jobs with these uses held, by key, where that is one gate each; of others it is noted.
local function heldBy(work, gated)
  local freed, keys, last = {}, {}, {}
  for i = 1, #gated do
    local key, use = onlyUse(last, gated[i])
    if not key then noteHeld(work, { state = RUNNING, laneGates = gated[i] }, -1)
    elseif freed[key] then freed[key] = freed[key] + use.weight
    else
      keys[#keys + 1] = key
      freed[key] = use.weight
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
  local freed, keys = heldBy(work, c.gated)
  c.gated = nil
  returnHeld(c, work, keys, freed)
  for route in pairs(routes) do
    if call("EXISTS", c.k.open .. route) == 1 then push(c, "shown", route) end
  end
  tellShown(c)
end
`;
