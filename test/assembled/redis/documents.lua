-- documents/documents
module(function()
local add2, addTo, after, change, eachRoute, emitCall = M.add2, M.addTo, M.after, M.change, M.eachRoute, M.emitCall
local emitPacked, fetch, instant, keepUnreadableDoc = M.emitPacked, M.fetch, M.instant, M.keepUnreadableDoc
local nextArg, nextClock, nextFlag, nextNumber, num = M.nextArg, M.nextClock, M.nextFlag, M.nextNumber, M.num
local push, readFields, READS, serve, slice, widen = M.push, M.readFields, M.READS, M.serve, M.slice, M.widen
local writeRecords, WRITES = M.writeRecords, M.WRITES

local DOCS_AT_ONCE = 200

local function isExpired(c, doc) return doc.expiresAt ~= "" and tonumber(doc.expiresAt) <= c.now end

-- Nothing where the text is no document.
local function readDoc(text)
  local doc = readFields(text, "doc")
  doc.version = tonumber(doc.version or "")
  local isTimed = doc.expiresAt ~= ""
  return doc.version and (not isTimed or tonumber(doc.expiresAt)) and doc or nil
end

local function docOf(c, field)
  local doc = c.docs[field]
  if doc == nil then
    local text = call("HGET", c.k.doc, field)
    doc = text and readDoc(text) or false
    if text and not doc then keepUnreadableDoc(c, field, text) end
    c.docs[field] = doc
  end
  return doc or nil
end

local function floorOf(c)
  if not c.docFloor then c.docFloor = tonumber(call("HGET", c.k.meta, "docFloor") or 0) end
  return c.docFloor
end

-- The document is gone with this call; no document begins with one of its versions again.
local function dropDoc(c, field)
  local old, floor = docOf(c, field), floorOf(c)
  change(c, "docs", field, false)
  if not old or old.version <= floor then return end
  c.docFloor, c.isFloorRaised = old.version, true
  if c.undo then push(c, "undo", function() c.docFloor = floor end) end
end

local ADDS, EMPTY = "+", "\001e"
local putDoc

-- guard: "any", or the version that must be there, or ADDS. body "" deletes. emits: a packed bundle of events, "" for
-- none. Answers whether the guard held, and the version; of an add also the sum, or why it is refused.
putDoc = function(c, field, guard, due, expiresIn, body, emits)
  local old = docOf(c, field)
  local isThere = old and not isExpired(c, old)
  if guard == ADDS then
    local sum, more, number = addTo(isThere and old.body or "0", body)
    if not sum then return false, number, more end
    local _, version = putDoc(c, field, "any", "", expiresIn, num(sum), "")
    if more then putDoc(c, more, "any", "+0", "", EMPTY, "") end
    return true, version, sum
  end
  local current = isThere and old.version or 0
  if guard ~= "any" and tonumber(guard) ~= current then return false, current end
  if emits ~= "" then emitPacked(c, emits) end
  if body == "" then
    dropDoc(c, field)
    return true, 0
  end
  local version = (old and old.version or floorOf(c)) + 1
  local doc = {
    version = version,
    dueAt = due == "" and "" or num(instant(c, due)),
    expiresAt = after(c, expiresIn),
    body = body,
  }
  change(c, "docs", field, doc)
  return true, version
end

local function putDocs(c)
  widen(c)
  local out = {}
  while c.i <= c.last do
    local isAdd = c.args[c.i + 1] == ADDS
    local isPut, version, more = putDoc(c, nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c), nextArg(c))
    if isPut or not isAdd then
      add2(out, isPut and 1 or 0, version)
      out[#out + 1] = more
    else
      add2(out, more == "uncountable" and 2 or 0, 0)
      out[#out + 1] = version
    end
  end
  writeRecords(c)
  return out
end

serve("put_docs", WRITES, function(c)
  c.last = #c.args
  local out = putDocs(c)
  return { emitCall(c), out }
end)

local function addRead(c, fields, out, most)
  local records = fetch("HMGET", c.k.doc, fields)
  for i, field in ipairs(fields) do
    local doc = records[i] and readDoc(records[i])
    if doc and not isExpired(c, doc) then
      if #out == most then return true end
      add2(out, field, records[i])
    end
  end
end

local function readDocs(c)
  local out = {}
  if nextFlag(c) then
    addRead(c, slice(c.args, c.i, c.last), out)
    return { out, "" }
  end
  local from, to, most = nextArg(c), nextArg(c), nextNumber(c) * 2
  while #out < most do
    local fields = call("ZRANGEBYLEX", c.k.docs, from, to, "LIMIT", 0, DOCS_AT_ONCE)
    if addRead(c, fields, out, most) then break end
    if #fields < DOCS_AT_ONCE then return { out, "" } end
    from = "(" .. fields[#fields]
  end
  return { out, out[#out - 1] }
end

serve("read_docs", READS, function(c)
  c.last = #c.args
  return readDocs(c)
end)

local function readyRoutes(c)
  local out = {}
  for route in eachRoute(c) do
    local waits = tonumber(call("HGET", c.k.counts, route .. ":" .. READY) or 0) > 0
    if waits or call("ZCARD", c.k.ready .. route) > 0 then out[#out + 1] = route end
  end
  return out
end

local function answerHeartbeat(c, puts, hints)
  c.last = #c.args
  local found = readDocs(c)
  return { num(c.at), nextClock(c), puts, found, readyRoutes(c), hints }
end

serve("heartbeat", WRITES, function(c)
  local count = nextNumber(c)
  c.last = c.i + count - 1
  local puts = putDocs(c)
  return answerHeartbeat(c, puts, emitCall(c))
end)

serve("look", READS, function(c)
  nextNumber(c)
  return answerHeartbeat(c, {})
end)

-- Members of one score stand in byte order, so those of the cursor's score that were given before are passed over.
serve("read_due_docs", READS, function(c)
  local most, fromScore, fromField, out, at = nextNumber(c), nextArg(c), nextArg(c), {}, 0
  local score, last = "", ""
  while true do
    local found = call(
      "ZRANGEBYSCORE",
      c.k.docdue,
      fromScore == "" and "-inf" or fromScore,
      c.at,
      "WITHSCORES",
      "LIMIT",
      at,
      DOCS_AT_ONCE
    )
    local fields, scores = {}, {}
    for i = 1, #found, 2 do
      local due = num(tonumber(found[i + 1]))
      if due ~= fromScore or found[i] > fromField then
        fields[#fields + 1] = found[i]
        scores[#scores + 1] = due
      end
    end
    at = at + #found / 2
    local records = fetch("HMGET", c.k.doc, fields)
    for i, field in ipairs(fields) do
      if #out == most * 2 then return { c.at, nextClock(c), score, last, out, num(c.ahead) } end
      if records[i] and readDoc(records[i]) then
        add2(out, field, records[i])
        score, last = scores[i], field
      end
    end
    if #found < DOCS_AT_ONCE * 2 then return { c.at, nextClock(c), "", "", out, num(c.ahead) } end
  end
end)

M.isExpired, M.docOf, M.dropDoc, M.putDoc = isExpired, docOf, dropDoc, putDoc
end)
