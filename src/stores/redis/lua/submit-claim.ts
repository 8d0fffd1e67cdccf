/**
 * submit_claim: a single plain job and the claim that was sent right behind it, in one call. On an idle queue the job goes to its worker without
 * ever waiting: no entry among the ready jobs to add and take out again, no hint to others, one record in the feed. It leaves what submit_one and
 * then claim would leave, and runs just those where other jobs are ready or the claim is not of the usual kind.
 *
 *  args     those of submit_one, then those of claim
 *  answer   the route's number, the answer of claim
 */
export const submitClaimLua = String.raw`
-- Whether the claim makes one offer, with this route in it and no more than one command takes, none of which has a ready job; and whether it
-- knows all routes.
local function isFirst(c, route, args)
  local offered, isOffered, keys = tonumber(args[13] or 0), false, {}
  if offered > CHUNK or #args ~= 13 + offered or args[12] == "0" or args[11] ~= num(c.fence) .. ":" .. num(c.routes) then return false end
  for i = 1, offered do
    local each = args[13 + i]
    isOffered = isOffered or each == route
    keys[i] = c.k.ready .. each
  end
  return isOffered and call("EXISTS", unpack(keys)) == 0
end

redis.register_function("mr1_submit_claim", function(keys, args)
  local c, refused = begin(keys, args, true)
  if not c then return refused end
  local k, route = c.k, c.numbers[4]
  c.i = 9
  if route and isFirst(c, route, args) then
    local spec, h, _, event = makeOne(c, route, args)
    local id, fence, ends = args[7], num(c.fence + 1), num(c.now + args[10])
    local rest, claimed = firstOf(c, route, args[9], ends)
    writeOne(c, route, id, h, spec)
    call("HSET", k.state, h, RUNNING .. fence .. US .. id .. rest)
    call("ZADD", k.lease, ends, h)
    tellFeed(k, c.life, c.at, event .. RS .. claimed .. US .. id)
    return { route, { c.at, nextClock(c), {}, args[12] == "1" and 1 or 0, fence, { h, spec }, {} } }
  end
  if not route then
    route = addRoute(k, args[4])
    c.routes = tonumber(route)
  end
  submitOne(c, route, args)
  return { route, claim(c) }
end)
`;
