/** Times: relative ones made instants (R1), and which clock of the store rings next. */
import { lua, luaModule } from "./lua.ts";

export const clocksLua = luaModule({
  name: "library/clocks",
  takes: ["num"],
  gives: ["earliest instant after firstScore setHead hasDueDocs nextClock hasRung"],
  source: lua`
local FROM_NOW, BY_SERVER = ${"+".charCodeAt(0)}, ${"@".charCodeAt(0)}

-- The earliest of some times as texts; "" is none.
local function earliest(a, b, d)
  local best = a
  if b ~= "" and (best == "" or tonumber(b) < tonumber(best)) then best = b end
  if d and d ~= "" and (best == "" or tonumber(d) < tonumber(best)) then best = d end
  return best
end

-- "+ms" from now, "=instant", or "@instant" by the server's own clock.
local function instant(c, due)
  local n, kind = tonumber(sub(due, 2)), byte(due)
  if kind == FROM_NOW then return c.now + n end
  return kind == BY_SERVER and n + c.ahead or n
end

local function after(c, ms)
  if ms == "" then return "" end
  return num(c.now + ms)
end

-- Numbers go to commands as texts: the server would write each out with 17 digits first.
local function firstScore(key)
  local score = call("ZRANGE", key, "0", "0", "WITHSCORES")[2]
  return score and score ~= "inf" and tonumber(score) or nil
end

-- A route stands among those with scheduled jobs by its earliest due time.
local function setHead(k, route)
  local head = firstScore(k.dueOf .. route)
  if head then
    call("ZADD", k.due, num(head), route)
  else
    call("ZREM", k.due, route)
  end
end

-- Whether a document with a due time was ever met since the store was entered: a store without any is not asked.
local function hasDueDocs(c)
  local life = c.life
  if life.hasDueDocs == nil then life.hasDueDocs = call("EXISTS", c.k.docdue) == 1 end
  return life.hasDueDocs
end

-- The same of suspended jobs that wake.
local function hasWakes(c)
  local life = c.life
  if life.hasWakes == nil then life.hasWakes = call("EXISTS", c.k.wake) == 1 end
  return life.hasWakes
end

-- The earliest clock of any live job or document as text; "" without one.
local function nextClock(c)
  local k = c.k
  local best = firstScore(k.due)
  local doc = hasDueDocs(c) and firstScore(k.docdue)
  if doc and (not best or doc < best) then best = doc end
  local wake = hasWakes(c) and firstScore(k.wake)
  if wake and (not best or wake < best) then best = wake end
  local lease = firstScore(k.lease)
  if lease and (not best or lease < best) then best = lease end
  -- Read before, and only a call that changed jobs one by one can have moved it.
  local clock = c.clockHead
  if clock == nil or c.jobs then clock = firstScore(k.clock) end
  if clock and (not best or clock < best) then best = clock end
  return best and num(best) or ""
end

-- Whether a clock of a waiting job has rung.
local function hasRung(c)
  c.clockHead = firstScore(c.k.clock) or false
  return c.clockHead and c.clockHead <= c.now
end
`,
});
