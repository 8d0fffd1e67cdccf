/**
 * The gates of keys (R7, model/routing/lane.ts): what bounds one, and what is kept of it while it is held or its tokens
 * are spent. A use is a job's part of such a gate: weight:cap:key, without a cap where the limit says it.
 *
 *  one     set    gates of which one is held and no token time is kept, which is most of them: so an end that gives it
 *                 back need not read it
 *  use     hash   of all others: gate -> held [US token time]
 *  c.keyed        these, with their bounds, as far as the call has looked at them
 */
import { lua, luaModule } from "../library/lua.ts";

export const keyGatesLua = luaModule({
  name: "limits/key-gates",
  takes: ["add2 exact fetch many NONE num tagsIn"],
  gives: [
    "KEY_MARK isKeyed limitOf usesIn onlyUse setBounds loadKeyGates keyGateOf isOverOwnCap",
    "isRefusing writeKeyGates writeHeld",
  ],
  source: lua`
local KEY_MARK = "\t"
local ONE = "1"

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
  if not own.stepUs and isPerKey then
    g.stepUs, g.burstUs = limit.perStepUs, limit.perBurstUs
  end
end

local function newKeyGate(c, key, text)
  local held, tatUs = match(text, "^(%d*)\31?(.*)$")
  local g = {
    key = key,
    text = text,
    held = tonumber(held) or 0,
    tatUs = tonumber(tatUs) or 0,
    isShut = false,
    opensAt = false,
    cap = false,
    closedUntil = false,
    stepUs = false,
    burstUs = false,
    isOne = false,
    isInUse = false,
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
  local texts, ones = fetch("HMGET", c.k.use, wanted), fetch("SMISMEMBER", c.k.one, wanted)
  for i, key in ipairs(wanted) do
    local isOne = ones[i] == 1
    local g = newKeyGate(c, key, texts[i] or isOne and ONE or "")
    g.isOne, g.isInUse, view[key] = isOne, texts[i] and true, g
  end
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
  local set, gone, ones, noOnes = {}, {}, {}, {}
  for key, g in pairs(c.keyed or {}) do
    local isSpent = g.tatUs > c.now * 1000
    local text = ""
    if g.held > 0 or isSpent then text = num(g.held) .. (isSpent and US .. exact(g.tatUs) or "") end
    if text ~= g.text then
      local isOne, isInUse = text == ONE, text ~= ONE and text ~= ""
      if isInUse then
        add2(set, key, text)
      elseif g.isInUse then
        gone[#gone + 1] = key
      end
      if isOne then
        ones[#ones + 1] = key
      elseif g.isOne then
        noOnes[#noOnes + 1] = key
      end
      g.text, g.isOne, g.isInUse = text, isOne, isInUse
    end
  end
  many("HDEL", c.k.use, gone)
  many("SREM", c.k.one, noOnes)
  many("HSET", c.k.use, set)
  many("SADD", c.k.one, ones)
end

-- What is held of the gates of these keys, of which nothing else is kept. areOnes: one of each.
local function writeHeld(c, keys, held, areOnes)
  if areOnes and not c.keyed then return many("SADD", c.k.one, keys) end
  local set, ones, noOnes, keyed = {}, {}, {}, c.keyed or NONE
  for i = 1, #keys do
    local key = keys[i]
    local by, g = held[key], keyed[key]
    if by == 1 then
      ones[#ones + 1] = key
    else
      add2(set, key, num(by))
      noOnes[#noOnes + 1] = key
    end
    if g then
      g.held, g.text, g.isOne, g.isInUse = by, num(by), by == 1, by ~= 1
    end
  end
  many("SREM", c.k.one, noOnes)
  many("HSET", c.k.use, set)
  many("SADD", c.k.one, ones)
end
`,
});
