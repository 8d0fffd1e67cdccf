/**
 * A third road, for a turn of one plain job and the claim behind it: where nobody waits on the routes that the claim
 * offers, the job goes to its worker without ever being ready. It leaves what submit and claim leave (turn-call.test.ts
 * compares the keys); docs/decisions/0018 has its figure. Only for what those two have made a template of before, so
 * everything new or unusual goes their way.
 *
 *  args     submit and claim as in turn.ts
 *  answer   as there, or nothing where the two have to be done one after the other
 */
import type { LuaModule } from "./lua-module.ts";

export const handOverLua: LuaModule = {
  exports: ["handOver"],
  source: String.raw`
-- Whether an offer has this route, and none of its routes has a ready job.
local function isAlone(c, route, offered)
  local keys, isOffered = {}, false
  for i = 1, offered do
    local each = nextArg(c)
    isOffered = isOffered or each == route
    keys[i] = c.k.ready .. each
  end
  return isOffered and call("EXISTS", unpack(keys)) == 0
end

-- What is to be handed over, and to whom; nothing where it is not one plain job and one claim with one offer.
local function readBoth(c)
  local first = { name = nextArg(c), length = nextArg(c), shapes = nextArg(c), shape = nextArg(c), jobs = nextArg(c) }
  if first.name ~= "submit" or first.length ~= "6" or first.shapes ~= "1" or first.jobs ~= "1" then return nil end
  local shape, _, id, body = recall(c, first.shape), nextArg(c), nextArg(c), nextArg(c)
  if not shape or shape.hasTags == "1" or nextArg(c) ~= "claim" then return nil end
  local _, owner, leaseMs, _ = nextArg(c), nextArg(c), nextArg(c), nextArg(c)
  local wanted, offered = nextArg(c), nextNumber(c)
  local claimed = recall(c, owner .. US .. shape.route)
  if not claimed or not offered or offered > CHUNK or c.i + offered - 1 ~= #c.args then return nil end
  if not isAlone(c, shape.route, offered) then return nil end
  return { id = id, body = body, shape = shape, first = claimed, endsAt = num(c.now + leaseMs), wanted = wanted }
end

local function add(bundle, id)
  bundle.n = bundle.n + 1
  bundle[bundle.n] = id
end

local function handOver(c)
  local start = c.i
  local both = HAS_PLAIN_ROADS and readBoth(c)
  if not both then
    c.i = start
    return nil
  end
  c.seq = c.seq + 1
  local h, id, t, first, endsAt = handleOf(c.seq), both.id, both.shape.template, both.first, both.endsAt
  local spec = t.before .. id .. t.middle .. c.at .. t.behind .. both.body
  local before, behind = first.parts[1], fillFirst(first.parts, c.at, endsAt)
  c.specs, c.newIds, c.states = { h, spec }, { id, h }, { h, before .. id .. behind }
  c.zadd[c.k.lease] = { endsAt, h }
  count(c, both.shape.route, RUNNING, 1)
  add(bundleOf(c, t.event, READY, t.extra), id)
  add(bundleOf(c, first.event, RUNNING, first.extra), id)
  writeRecords(c)
  local claimed = { c.at, nextClock(c), both.wanted == "1" and 1 or 0, before .. behind, { h, spec }, {} }
  return { tellCall(c), { {}, claimed } }
end
`,
};
