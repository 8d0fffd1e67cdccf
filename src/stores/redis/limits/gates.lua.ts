/**
 * Gates (R7) as this server process remembers them with a store, so that a claim reads none: a store where no gate was
 * ever put has nothing of this (life.gates), and no call of it does more than see that. How much of a gate is held
 * follows from the counts of its routes, and is kept nowhere.
 *
 *  life.gates   all: gates by key, as numbers; nothing for what a gate does not ask
 *               users: by key, whether that gate was put or not, the routes that have to pass it, with their weights
 *               uses: by route, those of its gates that were put, with its weight
 *               closedIntakes: how many queues refuse new jobs
 */
import { foreverMs, queueGateKey } from "../../../model/limits/gate.ts";
import { jobStates, stateCodes } from "../../../model/job/job-state.ts";
import { gateNumbers } from "../packing/argument-text.ts";
import { lua, luaList, luaText, luaModule } from "../library/lua.ts";

/** Every count of a route that is kept beside that of all its jobs (emit.lua.ts). */
const counted = jobStates
  .filter((state) => state !== "ready" && state !== "running")
  .map((state) => String(stateCodes[state]));

export const gatesLua = luaModule({
  name: "limits/gates",
  takes: ["add2 push readFields tagsIn"],
  gives: [
    "FOREVER_MS ANY exact gateText writeGate numberIn readGate addRoute addGate startGates",
    "usersOf usesOf hasClosedIntake isIntakeClosed heldOf permitsLeft tatAfter opensAt noteOpened",
    "returnPermits",
  ],
  source: lua`
local QUEUE_GATE, FOREVER_MS, ANY = ${luaText(queueGateKey(""))}, ${foreverMs}, 1 / 0
local COUNTED = ${luaList(counted)}
local NUMBERS = ${luaList(gateNumbers)}

-- A rate may have fractions, where the numbers of jobs have none.
local function exact(n) return n and fmt("%.17g", n) or "" end

local function gateText(gate)
  local fields = {}
  for i, name in ipairs(NUMBERS) do
    fields[i] = exact(gate[name])
  end
  add2(fields, gate.isIntakeClosed and "1" or "0", gate.body)
  return concat(fields, US)
end

local function writeGate(k, gate) call("HSET", k.gate, gate.key, gateText(gate)) end

local function numberIn(text) return find(text, "^[%d.e+-]+$") and tonumber(text) or nil end

-- Nothing where the text is no gate.
local function readGate(key, text)
  local gate = readFields(text, "gate")
  for _, name in ipairs(NUMBERS) do
    local given = gate[name] or "?"
    gate[name] = numberIn(given)
    if not gate[name] and given ~= "" then return nil end
  end
  if not gate.version or not gate.tatUs or (gate.stepUs == nil) ~= (gate.burstUs == nil) then return nil end
  gate.key, gate.isIntakeClosed = key, gate.isIntakeClosed == "1"
  return gate
end

-- A route has to pass this gate.
local function addUser(gates, key, route, weight)
  push(gates.users, key, { route = route, weight = weight })
  local gate = gates.all[key]
  if gate then push(gates.uses, route, { gate = gate, weight = weight }) end
end

-- A route of this content (route-text.ts) is there.
local function addRoute(gates, route, content)
  local queue, asked = match(content, "^([^\31]*)\31[^\31]*\31[^\31]*\31([^\31]*)")
  local parts = tagsIn(asked or "")
  addUser(gates, QUEUE_GATE .. queue, route, 1)
  for i = 1, #parts, 2 do
    addUser(gates, parts[i], route, tonumber(parts[i + 1]) or 1)
  end
end

local function addGate(gates, gate)
  gates.all[gate.key], gates.sorted = gate, nil
  if gate.isIntakeClosed then gates.closedIntakes = gates.closedIntakes + 1 end
  for _, user in ipairs(gates.users[gate.key] or {}) do
    push(gates.uses, user.route, { gate = gate, weight = user.weight })
  end
end

-- From the first gate on, all routes are known.
local function startGates(k, life)
  local gates = { all = {}, users = {}, uses = {}, fields = {}, closedIntakes = 0 }
  local flat = call("HGETALL", k.route)
  for i = 1, #flat, 2 do
    addRoute(gates, flat[i], flat[i + 1])
  end
  life.gates = gates
  return gates
end

local function usersOf(c, gate) return c.life.gates.users[gate.key] or {} end

-- The gates of a route, with its weight; nothing without any.
local function usesOf(c, route)
  local gates = c.life.gates
  return gates and gates.uses[route]
end

local function hasClosedIntake(c)
  local gates = c.life.gates
  return gates and gates.closedIntakes > 0
end

local function isIntakeClosed(c, shape)
  local gate = c.life.gates.all[QUEUE_GATE .. match(shape.content, "^[^\31]*")]
  return gate and gate.isIntakeClosed
end

local function fieldsOf(c, route)
  local fields = c.life.gates.fields[route]
  if not fields then
    fields = { route .. ":" .. TOTAL }
    for i, state in ipairs(COUNTED) do
      fields[i + 1] = route .. ":" .. state
    end
    c.life.gates.fields[route] = fields
  end
  return fields
end

-- How many jobs of a route run: all without those that wait or are over.
local function runningOf(c, route)
  local counts = call("HMGET", c.k.counts, unpack(fieldsOf(c, route)))
  local running = tonumber(counts[1] or 0) - call("ZCARD", c.k.ready .. route)
  for i = 2, #counts do
    if counts[i] then running = running - counts[i] end
  end
  return max(0, running)
end

local function heldOf(c, gate)
  local held = 0
  for _, user in ipairs(usersOf(c, gate)) do
    held = held + user.weight * runningOf(c, user.route)
  end
  return held
end

-- model/limits/gate.ts has these three by the same names.
local function permitsLeft(gate, held, now)
  if gate.closedUntil and gate.closedUntil > now then return 0 end
  local byCap = gate.cap and max(0, gate.cap - held) or ANY
  if not gate.stepUs then return byCap end
  local nowUs = now * 1000
  local byRate = floor((nowUs + gate.burstUs - max(gate.tatUs, nowUs)) / gate.stepUs)
  return min(byCap, max(0, byRate))
end

local function tatAfter(gate, permits, now)
  if not gate.stepUs or permits == 0 then return gate.tatUs end
  return max(gate.tatUs, now * 1000) + permits * gate.stepUs
end

-- tatUs: with what has passed in this call.
local function opensAt(gate, tatUs, permits, now)
  if gate.closedUntil == FOREVER_MS then return nil end
  local tokensAt = gate.stepUs and math.ceil((tatUs + permits * gate.stepUs - gate.burstUs) / 1000) or 0
  local at = max(gate.closedUntil or 0, tokensAt)
  return at > now and at or nil
end

-- This gate may let somebody pass now: its routes are hinted (emitCall).
local function noteOpened(c, gate)
  c.opened = c.opened or {}
  c.opened[gate] = true
end

-- A job of this route runs no longer.
local function returnPermits(c, route)
  for _, use in ipairs(usesOf(c, route) or {}) do
    if use.gate.cap then noteOpened(c, use.gate) end
  end
end
`,
});
