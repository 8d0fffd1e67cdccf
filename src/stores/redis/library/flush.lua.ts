/**
 * flush: the submits, settles and claims that one process wants in one flush of its event loop, as one call: one entry
 * check, one record in the feed, one hint. Each operation leaves what it would leave alone; a claim sees the jobs of a
 * submit before it.
 *
 *  args     per operation: its name, the number of its arguments, those
 *  answer   own hints, the answer of each
 */
import { lua, luaModule } from "./lua.ts";

export const flushLua = luaModule({
  name: "library/flush",
  takes: ["begin emitCall nextArg nextNumber"],
  source: lua`
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
`,
});
