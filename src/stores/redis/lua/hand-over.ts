/**
 * A third road, for a turn of one plain job and the claim behind it: where nobody waits on the routes that the claim offers, the job goes to
 * its worker without ever being ready. It leaves what submit and claim leave (turn-call.test.ts compares the keys); docs/decisions/0018 has its
 * figure. Only for what those two have made a template of before, so everything new or unusual goes their way.
 *
 *  args     submit and claim as in turn.ts
 *  answer   as there, or nothing where the two have to be done one after the other
 */
import type { LuaModule } from "./lua-module.ts";

export const handOverLua: LuaModule = {
  exports: ["handOver"],
  source: String.raw`
-- The claim makes one offer, with this route in it, and no route of it has a ready job.
local function isAlone(c, route, offered)
  local keys, isOffered = {}, false
  for i = 1, offered do
    local each = nextArg(c)
    isOffered = isOffered or each == route
    keys[i] = c.k.ready .. each
  end
  return isOffered and call("EXISTS", unpack(keys)) == 0
end

local function add(bundle, id)
  bundle.n = bundle.n + 1
  bundle[bundle.n] = id
end

-- The operations with the number of their arguments; of the submit: shapes, the shape, jobs of it, its number.
local SUBMIT_ONE = { "submit", "6", "1", false, "1", "1" }

local function handOver(c)
  local args, k, last = c.args, c.k, #c.args
  for at, wanted in ipairs(SUBMIT_ONE) do
    if wanted and args[c.i + at - 1] ~= wanted then return nil end
  end
  local shape = recall(c, args[c.i + 3])
  if not HAS_PLAIN_ROADS or not shape or shape.hasTags == "1" or args[c.i + 8] ~= "claim" then return nil end
  local start = c.i
  c.i = start + 6
  local id, body, _, _, owner, leaseMs, wanted, offered = nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextNumber(c)
  local first = recall(c, owner .. US .. shape.route)
  if not first or not offered or offered > CHUNK or c.i + offered - 1 ~= last or not isAlone(c, shape.route, offered) then
    c.i = start
    return nil
  end
  c.seq = c.seq + 1
  local t, h, endsAt = shape.template, handleOf(c.seq), num(c.now + leaseMs)
  local spec, behind = t.before .. id .. t.middle .. c.at .. t.behind .. body, fillFirst(first.parts, c.at, endsAt)
  c.specs, c.newIds, c.states = { h, spec }, { id, h }, { h, first.parts[1] .. id .. behind }
  c.zadd[k.lease] = { endsAt, h }
  count(c, shape.route, RUNNING, 1)
  add(bundleOf(c, t.event, READY, t.extra), id)
  add(bundleOf(c, first.event, RUNNING, first.extra), id)
  writeRecords(c)
  local claimed = { c.at, nextClock(c), wanted == "1" and 1 or 0, first.parts[1] .. behind, { h, spec }, {} }
  return { tellCall(c), { {}, claimed } }
end
`,
};
