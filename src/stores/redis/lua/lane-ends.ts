/**
 * Jobs with lanes that ended as a set give back what they held of the gates of their keys. Most have one gate, of which
 * nothing but a count is kept; a gate about which more is known moves as after any other change (parked.ts).
 */

export const laneEndsLua = String.raw`
-- What these jobs held, by key, where that is one gate each; of others it is noted. Answers also their lanes.
local function heldBy(work, specs)
  local freed, keys, lanes, alike, uses = {}, {}, {}, {}, {}
  for _, spec in ipairs(specs) do
    local lane, gates = laneIn(spec or "", alike)
    if gates then
      lanes[#lanes + 1] = lane
      local key, use = onlyUse(uses, gates)
      if not key then noteHeld(work, { state = RUNNING, laneGates = gates }, -1)
      elseif freed[key] then freed[key] = freed[key] + use.weight
      else
        keys[#keys + 1] = key
        freed[key] = use.weight
      end
    end
  end
  return freed, keys, lanes
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
  local set, gone, returned = {}, {}, {}
  local texts = fetch("HMGET", c.k.use, keys)
  for i, key in ipairs(keys) do
    local held = texts[i] and not (c.keyed and c.keyed[key]) and tonumber(texts[i])
    if not held then work.held[key] = (work.held[key] or 0) - freed[key]
    else
      returned[#returned + 1] = key
      if held > freed[key] then add2(set, key, num(held - freed[key])) else gone[#gone + 1] = key end
    end
  end
  many("HDEL", c.k.use, gone)
  many("HSET", c.k.use, set)
  noteWakes(c, work, returned)
end

-- The routes of the first jobs of lanes that are open may go on.
local function showFreed(c, lanes)
  local shown
  for _, text in ipairs(fetch("HMGET", c.k.lane, lanes)) do
    -- Most are of a route that is told of already.
    local isNew = text and not (shown and find(text, shown, 1, true))
    local route = isNew and match(text, "^[^\31]+\31[^\31]*\31([^\31]*)\31[^\31]*\31\31")
    if route then
      push(c, "shown", route)
      shown = US .. route .. US
    end
  end
  tellShown(c)
end

local function freeGates(c)
  local work = workOf(c)
  local freed, keys, lanes = heldBy(work, fetch("HMGET", c.k.spec, c.gated))
  c.gated = nil
  returnHeld(c, work, keys, freed)
  showFreed(c, lanes)
end
`;
