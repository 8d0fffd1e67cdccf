/**
 * Jobs with lanes come by hundreds and differ in little: those of a route that are alike in all but id, time, lane, the
 * key of their gate, and input are a kind. The first of a claim is read by patterns, and the others are compared with
 * what its spec has around these.
 *
 *  kind   own: its flags. step, weight and cap of one job, prefix: what its use has before the key, isOwnCap: whether
 *         the cap is the job's own; no cap where the gate is bounded by more than that
 *         flags US id text lane middle [key after] input: the parts of the spec; text begins with the time, before has
 *         what follows the time in it; the middle ends with the limit, which is so long and begins the key; none
 *         without a gate
 */
import { lua, luaModule } from "../library/lua.ts";
import { alikePattern } from "./lane-packing.lua.ts";

export const laneKindsLua = luaModule({
  name: "groups/lane-kinds",
  takes: ["ANY inputAt isKeyed KEY_MARK limitOf onlyUse readFirst"],
  gives: ["kindOf readLike"],
  source: lua`
local ALIKE = ${alikePattern}

-- What bounds the gate of a key beside a cap of the job's own; false where that is more than a cap.
local function capOf(c, key)
  local gates = c.life.gates
  if not gates then return ANY end
  local limit = gates.all[limitOf(key)]
  if limit and limit.perKey and limit.perStepUs then return false end
  return limit and limit.perKey and limit.perCap or ANY
end

-- All fields at once (as in newRecord).
local function newKind(own, step)
  return {
    own = own,
    step = step,
    prefix = "",
    weight = 0,
    cap = ANY,
    isOwnCap = false,
    flags = HOLE,
    text = "",
    before = "",
    middle = US .. step .. US,
    behind = "",
    limitLength = false,
  }
end

-- Its gate is that of a key.
local function setGate(c, kind, key, use)
  local cap = capOf(c, key)
  local limit = limitOf(key) .. KEY_MARK
  kind.prefix, kind.weight, kind.cap, kind.isOwnCap = use.prefix, use.weight, cap and (use.cap or cap), use.cap ~= nil
  kind.middle, kind.limitLength = kind.middle .. use.prefix .. limit, #limit
end

-- The kind of a job of this lane, its id, and the key of its gate; nothing for one that is not plain but for its lane,
-- tags and a unique key, or has to pass several. One with tags or a unique key is compared with no other.
local function kindOf(c, spec, route, lane)
  local id, own, found, step, gates = readFirst(spec, nil, route)
  if not id or found ~= lane then return nil end
  local kind, key, use = newKind(own, step), nil, nil
  if gates ~= "" then
    key, use = onlyUse({}, gates)
    if not key or not isKeyed(key) then return nil end
    setGate(c, kind, key, use)
  end
  local _, madeAt, laneAt, gatesEnd, tail = match(spec, ALIKE)
  if tail then
    kind.flags, kind.before, kind.text = own .. US, sub(spec, madeAt, laneAt - 1), sub(spec, #own + #id + 2, laneAt - 1)
    kind.behind = sub(spec, gatesEnd, inputAt(spec, tail) - 1)
    if not key then kind.middle = kind.middle .. kind.behind end
    c.alike[route] = kind
  end
  return kind, id, key
end

-- A spec of another time than those before it. Answers where its id stops and what it has from there on up to the key
-- of its gate or its input; nothing where more differs.
local function meetTime(kind, spec, from, lane)
  local stop = find(spec, US, from, true)
  local at = stop and find(spec, kind.before, stop + 1, true)
  if not at or not tonumber(sub(spec, stop + 1, at - 1)) then return nil end
  kind.text = sub(spec, stop, at + #kind.before - 1)
  local text = kind.text .. lane .. kind.middle
  if find(spec, text, stop, true) == stop then return stop, text end
end

-- Id and key of the gate of a job of a kind and a lane; nothing for others.
local function readLike(kind, spec, lane)
  local from, text = #kind.flags + 1, kind.text .. lane .. kind.middle
  if find(spec, kind.flags, 1, true) ~= 1 then return nil end
  local stop, key = find(spec, text, from, true), nil
  if not stop then
    stop, text = meetTime(kind, spec, from, lane)
    if not stop then return nil end
  end
  local at = stop + #text
  if kind.limitLength then
    local keyAt = at - kind.limitLength
    at = find(spec, US, at, true)
    if not at or find(spec, kind.behind, at, true) ~= at then return nil end
    key = sub(spec, keyAt, at - 1)
    if find(key, RS, 1, true) then return nil end
    at = at + #kind.behind
  end
  if not find(spec, US, at, true) then return sub(spec, from, stop - 1), key end
end
`,
});
