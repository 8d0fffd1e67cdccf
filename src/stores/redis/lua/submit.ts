/**
 * submit: the first step of a job's life. Runs of plain jobs (minted ids, no key, no document) are written without looking at anything; other
 * units are put together in the call's tables first (R8), and a unit that is refused late is taken back there.
 *
 *  args     routes (n, then queue US name), then steps until the end: n > 0, a shape, and id and body of n plain jobs; or 0 and one unit:
 *           repeat, late, jobs, documents
 *  a job    shape, id, body         shape   route US due US base US slope US deadline US ttl US on-held US flags
 *                                   body    key US hold US digest US tags US policy US meta US input
 *  a document   kind US id, guard, due in, expires in, body
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { fields } from "./base.ts";

export const submitLua = String.raw`
local SHAPE = "^${fields(7)}([^\31]*)$"
local BODY = "^${fields(4)}()"
local MET = { replace = "${eventCodes.replaced}", reschedule = "${eventCodes.rescheduled}" }

-- The number of the call's i-th route; a new one gets the next.
local function routeOf(c, i)
  local number = c.numbers[3 + i]
  if number then return number end
  push(c, "newRoutes", c.names[3 + i])
  number = num(c.routes + #c.newRoutes)
  c.numbers[3 + i] = number
  if c.undo then
    c.undo[#c.undo + 1] = function()
      c.newRoutes[#c.newRoutes] = nil
      c.numbers[3 + i] = false
    end
  end
  return number
end

-- R1, once for all jobs of the call that look alike.
local function shapeOf(c, text)
  local s = c.shapes[text]
  if s then return s end
  local route, due, base, slope, deadline, ttl, onHeld, flags = match(text, SHAPE)
  local at = instant(c, due)
  s = { route = tonumber(route), due = num(at), rank = num(base + slope * at), base = base, slope = slope, onHeld = onHeld, flags = flags }
  s.dueText, s.ttlText = due, ttl
  s.deadline = deadline == "" and "" or num(instant(c, deadline))
  s.ttl = ttl == "" and "" or num(at + ttl)
  s.status = at <= c.now and READY or SCHEDULED
  c.shapes[text] = s
  return s
end

-- What plain jobs of one shape share.
local function prepare(c, s)
  local k, route = c.k, routeOf(c, s.route)
  s.head = s.flags .. US
  s.mid = concat({ "", route, c.at, s.due ~= c.at and s.due or "", s.rank ~= s.due and s.rank or "", s.deadline, s.ttl, "" }, US)
  s.key = s.status == READY and k.ready .. route or k.due
  s.score = s.status == READY and s.rank or s.due
  s.clock = earliest(s.deadline, s.ttl)
  if s.status == READY then setReady(c, route)
  else
    if s.clock ~= "" then s.clock = earliest(s.clock, s.due) end
    setDue(c, s.due)
  end
  if s.clock ~= "" then setDue(c, s.clock) end
  s.number = route
  local key = concat({ "${eventCodes.submitted}", "1", route, s.status, "0", s.status == SCHEDULED and "n" .. s.due or "" }, US)
  s.group = c.groups[key] or newGroup(c, key, "${eventCodes.submitted}", s.status, "")
  s.hasTags = find(s.flags, "g", 1, true)
end

-- Jobs of one shape: id and body of each. The names of seqs with one number of digits begin with one letter.
local function submitPlain(c, total)
  local args, seq, s = c.args, c.seq, shapeOf(c, nextArg(c))
  if not s.head then prepare(c, s) end
  local i, head, mid, score, g = c.i, s.head, s.mid, s.score, s.group
  local specs, ids, list = c.specs or {}, c.newIds or {}, c.zadd[s.key] or {}
  c.specs, c.newIds, c.zadd[s.key] = specs, ids, list
  local n, m, z, told = #specs, #ids, #list, g.n
  local digits, limit = #num(seq + 1), nil
  limit = 10 ^ digits
  local letter = char(96 + digits)
  for _ = 1, total do
    local id, body = args[i], args[i + 1]
    i = i + 2
    seq = seq + 1
    if seq == limit then
      letter, limit = char(96 + #num(seq)), limit * 10
    end
    local h = letter .. seq
    specs[n + 1], specs[n + 2] = h, head .. id .. mid .. body
    n = n + 2
    ids[m + 1], ids[m + 2] = id, h
    m = m + 2
    list[z + 1], list[z + 2] = score, h
    z = z + 2
    told = told + 1
    g[told] = id
    if s.clock ~= "" then push2(c.zadd, c.k.clock, s.clock, h) end
    if s.hasTags then
      local _, _, _, tags = match(body, BODY)
      for _, tag in ipairs(split(tags, RS)) do push2(c.zadd, c.k.tag .. tag, seq, h) end
    end
  end
  g.n = told
  count(c, s.number, s.status, total)
  c.i, c.seq = i, seq
end

local function createJob(c, s, id, body)
  c.seq = c.seq + 1
  local key, hold, digest, tags, at = match(body, BODY)
  local job = {
    h = handleOf(c.seq), id = id, route = routeOf(c, s.route), created = c.at, due = s.due, rank = s.rank, deadline = s.deadline, ttl = s.ttl, key = key,
    hold = hold, digest = digest, tags = tags, tail = sub(body, at), status = s.status, fence = "0", rev = 0, settled = "", attempt = 0, counts = "1",
    cancel = "0", owner = "", claimed = "", started = "", lease = "", ends = "", ended = "", keep = "", reason = "", result = "", log = "", progress = "",
  }
  c.jobs[job.h] = job
  touch(c, job)
  if c.undo then
    c.undo[#c.undo + 1] = function()
      c.jobs[job.h] = false
      job.dirty = false
    end
  end
  setId(c, id, job.h)
  if key ~= "" then takeKey(c, job, hold) end
  tell(c, job, "${eventCodes.submitted}", job.status)
end

-- Answers how and the id, or nothing when the id is there with another digest.
local function submitJob(c, s, id, body, isRepeat)
  local key, hold, digest, tags, at = match(body, BODY)
  if isRepeat or digest ~= "" then
    local known = handleById(c, id)
    known = known and jobOf(c, known)
    if known then
      if known.digest ~= digest then return nil end
      return "e", id
    end
  end
  if key ~= "" then
    local entry = holderOf(c, key)
    if entry and isHeld(c, entry) then
      local holder = jobOf(c, entry.h)
      if s.onHeld == "keep" or not holder or holder.attempt > 0 or (holder.status ~= READY and holder.status ~= SCHEDULED) then return "e", entry.id end
      touch(c, holder)
      placeJob(c, holder, s.dueText, s.base, s.slope, s.ttlText)
      if s.onHeld == "replace" then
        holder.route, holder.deadline, holder.tags, holder.tail, holder.isRewritten = routeOf(c, s.route), s.deadline, tags, sub(body, at), true
        takeKey(c, holder, hold)
      end
      move(c, holder, waitingStatus(c, holder), MET[s.onHeld])
      return s.onHeld == "replace" and "r" or "s", holder.id
    end
  end
  createJob(c, s, id, body)
  return "c", id
end

local function isExpired(c, doc) return doc.expires ~= "" and tonumber(doc.expires) <= c.now end

local function docOf(c, field)
  local doc = c.docs[field]
  if doc == nil then
    doc = false
    local text = call("HGET", c.k.doc, field)
    if text then
      local version, due, expires, body = unpack(split(text, US))
      doc = { version = tonumber(version), due = due, expires = expires, body = body }
    end
    c.docs[field] = doc
  end
  return doc or nil
end

-- guard: "any", or the version that must be there. body "" deletes. Answers whether it held, and the version.
local function putDoc(c, field, guard, dueIn, expiresIn, body)
  local old = docOf(c, field)
  local current = old and not isExpired(c, old) and old.version or 0
  if guard ~= "any" and tonumber(guard) ~= current then return false, current end
  if c.undo then
    local before = c.docs[field]
    c.undo[#c.undo + 1] = function() c.docs[field] = before end
  end
  c.docsDirty[field] = true
  if body == "" then
    c.docs[field] = false
    return true, 0
  end
  local version = (old and old.version or 0) + 1
  c.docs[field] = { version = version, due = after(c, dueIn), expires = after(c, expiresIn), body = body }
  return true, version
end

local function takeBack(c)
  for i = #c.undo, 1, -1 do c.undo[i]() end
end

-- Jobs in order, then documents in order; the first refusal is the answer, "reason US id". Reads its args whatever it answers.
local function submitUnit(c, isRepeat, jobs, docs)
  local answer, hasHappened, first, refusal = {}, false, c.i, nil
  for j = 0, jobs - 1 do
    local i = first + j * 3
    local id, body = c.args[i + 1], c.args[i + 2]
    local how, known = submitJob(c, shapeOf(c, c.args[i]), id, body, isRepeat)
    if not how then
      refusal = "id-differs" .. US .. id
      break
    end
    answer[#answer + 1] = how .. known
    -- A unit one of whose minted ids is known has happened whole, so its documents are not put again.
    if isRepeat and how == "e" and known == id and select(3, match(body, BODY)) == "" then hasHappened = true end
  end
  first = first + jobs * 3
  c.i = first + docs * 5
  if not refusal and not hasHappened then
    for d = 0, docs - 1 do
      local i = first + d * 5
      if not putDoc(c, c.args[i], c.args[i + 1], c.args[i + 2], c.args[i + 3], c.args[i + 4]) then
        refusal = "doc-changed" .. US .. match(c.args[i], "^[^\31]*\31(.*)$")
        break
      end
    end
  end
  return refusal, concat(answer, US)
end

-- Runs a unit that leaves nothing behind when it is refused. run answers a refusal or nothing, and the answer.
local function whole(c, isLate, run)
  if not isLate then return run() end
  c.undo, c.saved = {}, {}
  local seq = c.seq
  local refusal, answer = run()
  if refusal then
    takeBack(c)
    c.seq = seq
  end
  c.undo, c.saved = nil, nil
  return refusal, answer
end

-- Answers: own hints, then one text per unit that was not plain: ok US how id .., or refused US reason US id.
redis.register_function("mr1_submit", function(keys, args)
  local c, refused = begin(keys, args, true)
  if not c then return refused end
  local answers, last = {}, #args
  while c.i <= last do
    local total = tonumber(nextArg(c))
    if total > 0 then
      submitPlain(c, total)
    else
      -- What went before is written, so that the unit can meet it.
      if c.specs then writeRecords(c) end
      widen(c)
      local isRepeat, isLate, jobs, docs = nextArg(c) == "1", nextArg(c) == "1", tonumber(nextArg(c)), tonumber(nextArg(c))
      local refusal, answer = whole(c, isLate, function() return submitUnit(c, isRepeat, jobs, docs) end)
      answers[#answers + 1] = refusal and "refused" .. US .. refusal or "ok" .. (jobs > 0 and US or "") .. answer
    end
  end
  return { c.at, finish(c), answers }
end)
`;
