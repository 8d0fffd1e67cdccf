/**
 * Documents: versioned texts under a guard. An expired one counts as absent.
 *
 *  put_docs    per put: kind US id, guard, due in, expires in, body -> now, then per put: held (1 or 0), version
 *  read_docs   ids: 1, then kind US id ..; prefix: 0, first, end, max (both bounds as ZRANGEBYLEX has them)
 *              -> per document: kind US id, record; then the last field looked at, or "" at the end
 */
export const docsLua = String.raw`
redis.register_function("mr1_put_docs", function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local out = {}
  for i = c.i, #args, 5 do
    local isHeld, version = putDoc(c, args[i], args[i + 1], args[i + 2], args[i + 3], args[i + 4])
    out[#out + 1] = isHeld and 1 or 0
    out[#out + 1] = version
  end
  finish(c)
  return out
end)

local function isOver(c, record)
  local expires = match(record, "^[^\31]*\31[^\31]*\31([^\31]*)\31")
  return expires ~= "" and tonumber(expires) <= c.now
end

redis.register_function({ function_name = "mr1_read_docs", flags = { "no-writes" }, callback = function(keys, args)
  local c, refused = beginWide(keys, args)
  if not c then return refused end
  local out = {}
  if nextArg(c) == "1" then
    local fields = slice(args, c.i, #args)
    local records = fetch("HMGET", c.k.doc, fields)
    for i, field in ipairs(fields) do
      if records[i] and not isOver(c, records[i]) then
        out[#out + 1] = field
        out[#out + 1] = records[i]
      end
    end
    return { out, "" }
  end
  local from, to, max = nextArg(c), nextArg(c), tonumber(nextArg(c))
  while #out < max * 2 do
    local fields = call("ZRANGEBYLEX", c.k.docs, from, to, "LIMIT", 0, 200)
    if #fields == 0 then return { out, "" } end
    local records = fetch("HMGET", c.k.doc, fields)
    for i, field in ipairs(fields) do
      from = "(" .. field
      if records[i] and not isOver(c, records[i]) then
        if #out == max * 2 then return { out, out[#out - 1] } end
        out[#out + 1] = field
        out[#out + 1] = records[i]
      end
    end
    if #fields < 200 then return { out, "" } end
  end
  return { out, out[#out - 1] }
end })
`;
