/**
 * The gates of keys (R7, model/lane.ts): what bounds one, and what is kept of it while it is held or its tokens are
 * spent. A use is a job's part of such a gate: weight:cap:key, without a cap where the limit says it.
 *
 *  use     hash   gate -> held [US token time]
 *  c.keyed        these, with their bounds, as far as the call has looked at them
 */

export const keyGatesLua = String.raw`
local KEY_MARK = "\t"

local function isKeyed(gate) return find(gate, KEY_MARK, 1, true) ~= nil end

-- The limit or the queue whose key this is.
local function limitOf(gate) return sub(gate, 1, find(gate, KEY_MARK, 1, true) - 1) end

-- The uses in the gates of a job's lane.
local function usesIn(laneGates)
  if laneGates == "" then return NONE end
  local uses = find(laneGates, RS, 1, true) and tagsIn(laneGates) or { laneGates }
  for i, text in ipairs(uses) do
    local weight, cap, key = match(text, "^(%d+):(%d*):(.*)$")
    uses[i] = { key = key or text, weight = tonumber(weight) or 1, cap = tonumber(cap) }
  end
  return uses
end

-- Of a job with one gate of a key: that key, and weight and cap, which are those of the job before for most. Nothing
-- for several.
local function onlyUse(uses, laneGates)
  if find(laneGates, RS, 1, true) then return nil end
  local use = uses.last
  if not use or find(laneGates, use.prefix, 1, true) ~= 1 then
    local prefix, weight, cap = match(laneGates, "^((%d+):(%d*):)")
    if not prefix then return nil end
    use = { prefix = prefix, weight = tonumber(weight), cap = tonumber(cap) }
    uses.last = use
  end
  return sub(laneGates, #use.prefix + 1), use
end

-- What bounds a gate: its own put, else what its limit says of each key.
local function setBounds(c, g)
  local all = c.life.gates and c.life.gates.all or NONE
  local own, limit = all[g.key] or NONE, all[limitOf(g.key)]
  local isPerKey = limit and limit.perKey
  g.cap, g.closedUntil = own.cap or isPerKey and limit.perCap or nil, own.closedUntil
  g.stepUs, g.burstUs = own.stepUs, own.burstUs
  if not own.stepUs and isPerKey then g.stepUs, g.burstUs = limit.perStepUs, limit.perBurstUs end
end

local function newKeyGate(c, key, text)
  local held, tatUs = match(text, "^(%d*)\31?(.*)$")
  local g = {
    key = key, text = text, held = tonumber(held) or 0, tatUs = tonumber(tatUs) or 0, isShut = false,
    opensAt = false, cap = false, closedUntil = false, stepUs = false, burstUs = false,
  }
  setBounds(c, g)
  return g
end

-- Brings the gates of these keys into the call's view.
local function loadKeyGates(c, keys)
  local view, wanted = c.keyed or {}, {}
  c.keyed = view
  for _, key in ipairs(keys) do
    if view[key] == nil then
      wanted[#wanted + 1] = key
      view[key] = false
    end
  end
  local texts = fetch("HMGET", c.k.use, wanted)
  for i, key in ipairs(wanted) do view[key] = newKeyGate(c, key, texts[i] or "") end
end

local function keyGateOf(c, key)
  if not (c.keyed and c.keyed[key]) then loadKeyGates(c, { key }) end
  return c.keyed[key]
end

-- Whether a job's own cap refuses it. It is nobody else's, so others are not kept waiting by that.
local function isOverOwnCap(g, use) return use.cap and g.held + use.weight > use.cap end

-- Whether the gate itself refuses so much of a use. A cap of the job's own stands in the place of the gate's.
local function isRefusing(g, use, weight, now)
  if g.closedUntil and g.closedUntil > now then return true end
  if not use.cap and g.cap and g.held + weight > g.cap then return true end
  if not g.stepUs then return false end
  local nowUs = now * 1000
  return max(g.tatUs, nowUs) + weight * g.stepUs > nowUs + g.burstUs
end

-- Writes what has changed of the gates in view; what says nothing any more goes.
local function writeKeyGates(c)
  local set, gone = {}, {}
  for key, g in pairs(c.keyed or {}) do
    local isSpent = g.tatUs > c.now * 1000
    local text = ""
    if g.held > 0 or isSpent then text = num(g.held) .. (isSpent and US .. exact(g.tatUs) or "") end
    if text ~= g.text then
      if text == "" then gone[#gone + 1] = key else add2(set, key, text) end
      g.text = text
    end
  end
  many("HDEL", c.k.use, gone)
  many("HSET", c.k.use, set)
end
`;
