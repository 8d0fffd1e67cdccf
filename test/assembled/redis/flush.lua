-- library/flush
module(function()
local begin, emitCall, nextArg, nextNumber = M.begin, M.emitCall, M.nextArg, M.nextNumber

redis.register_function("mr1_lap", function(keys, args)
  local c, refused = begin(keys, args)
  if not c then return refused end
  local answers, last = {}, #args
  while c.i <= last do
    local operation, length = OPERATIONS[nextArg(c)], nextNumber(c)
    c.last = c.i + length - 1
    -- Bundles of an earlier operation stay as they are, so that the events of a job keep their order.
    c.bundles = {}
    answers[#answers + 1] = operation(c)
    c.i = c.last + 1
  end
  return { emitCall(c), answers }
end)

end)
