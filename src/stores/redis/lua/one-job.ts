/**
 * A third road, for a lap of one plain job of a kind that was seen before: alone, or with a claim behind it. Where
 * nobody waits on the routes which that claim offers, the job goes to its worker without ever being ready. What submit
 * and claim made a template of before is written here without the tables of a call, and leaves the same keys
 * (roads.test.ts); everything new or unusual goes their way. docs/decisions/0021 has the figures.
 *
 *  args     a submit and perhaps a claim, as in lap.ts
 *  answer   as there, or nothing where the lap has to be done as any other
 */

export const oneJobLua = String.raw`
-- The job; nothing where the lap does not begin with the submit of one plain job. One that has to pass a gate may be
-- refused, at its submit or at the claim.
local function readOne(c)
  local name, length, shapes, text, jobs = nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c)
  if name ~= "submit" or length ~= "6" or shapes ~= "1" or jobs ~= "1" then return nil end
  local shape, _, id, body = recall(c, text), nextArg(c), nextArg(c), nextArg(c)
  if not shape or shape.hasTags == "1" or shape.hasLane == "1" or shape.waits ~= "" or usesOf(c, shape.route) then return nil end
  return { id = id, body = body, route = shape.route, template = shape.template }
end

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

-- Who takes the job; nothing where that is not one claim with one offer, or others wait there.
local function readTaker(c, one)
  if nextArg(c) ~= "claim" then return nil end
  local _, owner, leaseMs, _ = nextArg(c), nextArg(c), nextArg(c), nextArg(c)
  local wanted, starts, offered = nextArg(c), nextNumber(c), nextNumber(c)
  local template = recall(c, firstKey(one.route, owner, starts and starts > 0))
  if not template or not offered or offered > CHUNK or c.i + offered - 1 ~= #c.args then return nil end
  if not isAlone(c, one.route, offered) then return nil end
  return { template = template, endsAt = num(c.now + leaseMs), filled = wanted == "1" and 1 or 0 }
end

-- What a job leaves whether it waits or not. Answers its handle and its spec.
local function writeOne(c, one)
  local k, t, id = c.k, one.template, one.id
  c.seq = c.seq + 1
  fillPages(c)
  local h, spec = handleOf(c.seq), t.before .. id .. t.middle .. c.at .. t.behind .. one.body
  call("HSET", k.spec, h, spec)
  call("HSET", k.ids, id, h)
  call("HINCRBY", k.tally, one.route .. ":" .. TOTAL, "1")
  if c.pages then writePages(c) end
  return h, spec
end

local function waits(c, one)
  local ready = c.k.ready .. one.route
  local isWoken = call("EXISTS", ready) == 0 or hasRung(c)
  local h = writeOne(c, one)
  call("ZADD", ready, c.at, h)
  tellFeed(c, one.template.event .. US .. one.id)
  if isWoken then call("PUBLISH", c.k.hint, hintText(c, one.route, "", "", "")) end
  return { { one.route, "", "", "", 1 }, { {} } }
end

local function handOver(c, one, taker)
  local t, h, spec = taker.template, writeOne(c, one)
  local before, behind = t.parts[1], fillFirst(t.parts, c.at, taker.endsAt)
  call("HSET", c.k.state, h, before .. one.id .. behind)
  call("ZADD", c.k.lease, taker.endsAt, h)
  tellFeed(c, one.template.event .. US .. one.id .. RS .. t.event .. US .. one.id)
  local claimed = { c.at, nextClock(c), taker.filled, before .. behind, h, { spec }, {} }
  return { { "", "", "", "", 1 }, { {}, claimed } }
end

local function oneJob(c)
  local start = c.i
  local one = HAS_PLAIN_ROADS and readOne(c)
  if one and c.i > #c.args then return waits(c, one) end
  local taker = one and readTaker(c, one)
  if taker then return handOver(c, one, taker) end
  c.i = start
end
`;
