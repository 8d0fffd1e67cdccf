-- limits/gate-calls
module(function()
local add2, addGate, emitPacked, exact, FOREVER_MS = M.add2, M.addGate, M.emitPacked, M.exact, M.FOREVER_MS
local FREES, gateText, heldOf, instant, isKeyed = M.FREES, M.gateText, M.heldOf, M.instant, M.isKeyed
local keepUnreadable, keyGateOf, nextArg, nextFlag = M.keepUnreadable, M.keyGateOf, M.nextArg, M.nextFlag
local nextNumber, noteOpened, numberIn, readGate = M.nextNumber, M.noteOpened, M.numberIn, M.readGate
local READS, releaseKeys, serve, setBounds, startGates = M.READS, M.releaseKeys, M.serve, M.setBounds, M.startGates
local workOf, writeCall, writeGate = M.workOf, M.writeCall, M.writeGate

local GATE, PUT = "gate:", { "cap", "stepUs", "burstUs", "closed", "isIntakeClosed", "emptiesRate",
  "perKey", "perCap", "perStepUs", "perBurstUs", "body", "emits" }

-- What the gate was is lost, but for its version, if that is still the first field.
local function shutGate(key, text)
  local version = numberIn(match(text, "^[^\31]*"))
  return { key = key, version = version or 1, tatUs = 0, closedUntil = FOREVER_MS, isIntakeClosed = false, body = "" }
end

-- Where a store is entered that this server process knows nothing of.
local function loadGates(k, life, at)
  local flat, c = call("HGETALL", k.gate), { k = k, at = at }
  if #flat == 0 then return end
  local gates = startGates(k, life)
  for i = 1, #flat, 2 do
    local key, text = flat[i], flat[i + 1]
    local gate = readGate(key, text)
    if not gate then
      gate = shutGate(key, text)
      keepUnreadable(c, GATE .. key, "", "the gate cannot be read, and is closed", text)
      writeGate(k, gate)
    end
    addGate(gates, gate)
  end
end

-- The gate of a key was put: what waits there is looked at again.
local function putKeyGate(c, key, emptiesRate)
  local g = keyGateOf(c, key)
  setBounds(c, g)
  if emptiesRate and g.stepUs then g.tatUs = max(g.tatUs, c.now * 1000 + g.burstUs) end
  workOf(c).releases[key] = true
end

-- Answers whether the guard held, and the version.
local function putGate(c, key, guard)
  local put = {}
  for _, name in ipairs(PUT) do
    put[name] = nextArg(c)
  end
  local gates = c.life.gates
  local gate = gates and gates.all[key]
  local version = gate and gate.version or 0
  if guard ~= "any" and tonumber(guard) ~= version then return false, version end
  gates = gates or startGates(c.k, c.life)
  if not gate then
    gate = { key = key, tatUs = 0, isIntakeClosed = false }
    addGate(gates, gate)
  end
  gates.closedIntakes = gates.closedIntakes + (put.isIntakeClosed == "1" and 1 or 0) - (gate.isIntakeClosed and 1 or 0)
  gate.version, gate.cap, gate.stepUs = version + 1, tonumber(put.cap), tonumber(put.stepUs)
  gate.burstUs, gate.closedUntil = tonumber(put.burstUs), put.closed ~= "" and instant(c, put.closed) or nil
  gate.isIntakeClosed, gate.body = put.isIntakeClosed == "1", put.body
  gate.perKey, gate.perCap = tonumber(put.perKey), tonumber(put.perCap)
  gate.perStepUs, gate.perBurstUs = tonumber(put.perStepUs), tonumber(put.perBurstUs)
  if put.emptiesRate == "1" and gate.stepUs then gate.tatUs = max(gate.tatUs, c.now * 1000 + gate.burstUs) end
  writeGate(c.k, gate)
  if put.emits ~= "" then emitPacked(c, put.emits) end
  noteOpened(c, gate)
  if isKeyed(key) then
    putKeyGate(c, key, put.emptiesRate == "1")
  else
    releaseKeys(c, key, "")
  end
  return true, gate.version
end

-- Allowed without memory: a queue is paused or drained when a store is full.
serve("put_gates", FREES, function(c)
  local out = {}
  while c.i <= #c.args do
    local isPut, version = putGate(c, nextArg(c), nextArg(c))
    add2(out, isPut and 1 or 0, version)
  end
  return { writeCall(c), out }
end)

-- Lua's own order of texts follows the locale of the server.
local function isBeforeInBytes(a, b)
  for i = 1, min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local function sortedKeys(gates)
  if not gates.sorted then
    local keys = {}
    for key in pairs(gates.all) do
      keys[#keys + 1] = key
    end
    table.sort(keys, isBeforeInBytes)
    gates.sorted = keys
  end
  return gates.sorted
end

-- The gate of a key as it stands, whether it was put, is only held or has spent tokens.
local function keyGateShown(c, key)
  local put = c.life.gates and c.life.gates.all[key]
  local g = keyGateOf(c, key)
  if not put and g.held == 0 and g.tatUs <= c.now * 1000 then return nil end
  g.version, g.isIntakeClosed, g.body = put and put.version or 0, put and put.isIntakeClosed, put and put.body or ""
  if g.tatUs <= c.now * 1000 then g.tatUs = 0 end
  return g, g.held
end

local function addRead(c, key, out)
  local gate, held
  if isKeyed(key) then
    gate, held = keyGateShown(c, key)
  else
    gate = c.life.gates and c.life.gates.all[key]
    held = gate and heldOf(c, gate)
  end
  local n = #out
  if gate then
    out[n + 1], out[n + 2], out[n + 3] = key, exact(held), gateText(gate)
  end
end

serve("read_gates", READS, function(c)
  local isNamed, out, gates = nextFlag(c), {}, c.life.gates
  if isNamed then
    for i = c.i, #c.args do
      addRead(c, c.args[i], out)
    end
    return { c.at, "", out }
  end
  local prefix, from, most = nextArg(c), nextArg(c), nextNumber(c)
  if not gates then return { c.at, "", out } end
  for _, key in ipairs(sortedKeys(gates)) do
    if find(key, prefix, 1, true) == 1 and isBeforeInBytes(from, key) then
      if #out == most * 3 then return { c.at, out[#out - 2] or "", out } end
      addRead(c, key, out)
    end
  end
  return { c.at, "", out }
end)

M.loadGates = loadGates
end)
