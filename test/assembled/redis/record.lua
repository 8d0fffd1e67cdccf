-- runs/record
module(function()
local appendEntries, emit, leased, many, nextArg = M.appendEntries, M.emit, M.leased, M.many, M.nextArg
local nextFrames, nextNumber, nextUnit, readFields = M.nextFrames, M.nextNumber, M.nextUnit, M.readFields
local readShapes, recordEntries, serve, slice = M.readShapes, M.recordEntries, M.serve, M.slice
local submitUnit, touch, whole, writeCall, writeFrames = M.submitUnit, M.touch, M.whole, M.writeCall, M.writeFrames
local WRITES = M.WRITES

local LINES_MAX = 1000
local PROGRESS_PART, LOGS, ENTRIES = 1, 2, 4
local SETS_BACK, EFFECTS, FRAMES, STEPS = 8, 16, 64, 128

local function has(parts, part) return floor(parts / part) % 2 == 1 end

local function addLines(c, job, lines, overflow)
  local key = c.k.log .. job.h
  local room, kept = LINES_MAX - call("LLEN", key), {}
  for i = 1, min(room, #lines) do
    kept[i] = c.at .. US .. lines[i]
  end
  many("RPUSH", key, kept)
  if #lines > room and overflow ~= "" then call("LSET", key, -1, c.at .. US .. overflow) end
end

local function nextTexts(c)
  local n = nextNumber(c)
  c.i = c.i + n
  return slice(c.args, c.i - n, c.i - 1)
end

-- The next write, all of it.
local function nextWrite(c, parts)
  local write = { lines = {} }
  if has(parts, PROGRESS_PART) then write.progress = nextArg(c) end
  if has(parts, LOGS) then
    write.overflow = nextArg(c)
    write.lines = nextTexts(c)
  end
  if has(parts, FRAMES) then write.frames = nextFrames(c) end
  if has(parts, ENTRIES) then
    write.entries = nextTexts(c)
    for i, text in ipairs(write.entries) do
      write.entries[i] = readFields(text, "entry")
    end
    write.setsBack = has(parts, SETS_BACK)
    write.steps = has(parts, STEPS) and nextTexts(c) or {}
    write.unit = has(parts, EFFECTS) and nextUnit(c) or nil
  end
  return write
end

local function emitSteps(c, job, steps)
  local reported = job.progress
  for _, text in ipairs(steps) do
    job.progress = text
    emit(c, job, STEP)
  end
  job.progress = reported
end

-- Effects come with new entries alone. Answers why they are refused, if they are: then nothing of it happened.
local function applyWrite(c, job, write)
  local unit, entries = write.unit, write.entries
  return whole(c, unit and unit.isLate, function()
    if write.progress or entries or write.frames or #write.lines > 0 then touch(c, job) end
    if write.progress then
      job.progress = write.progress
      emit(c, job, PROGRESS)
    end
    if #write.lines > 0 then job.hasLines = true end
    if write.frames then
      job.hasOutput = true
      emit(c, job, OUTPUT)
    end
    if not entries then return nil end
    if write.setsBack then
      job.attempt, job.attempts = 1, job.cancelAsked == "1" and job.attempts or ""
    end
    local isNew = appendEntries(c, job, entries)
    if isNew then emitSteps(c, job, write.steps) end
    if not unit then return nil end
    if isNew then return (submitUnit(c, false, unit)) end
    c.i = unit.stop
    return nil
  end)
end

-- The general path: any write.
local function recordAny(c, h, prefix, parts)
  local job, why = leased(c, h, prefix)
  local write = nextWrite(c, parts)
  if write.unit and not job then c.i = write.unit.stop end
  if not job then return why end
  local refusal = applyWrite(c, job, write)
  if refusal then return refusal end
  if #write.lines > 0 then addLines(c, job, write.lines, write.overflow) end
  if write.frames then writeFrames(c, job, write.frames) end
  return write.entries and job.last or "ok"
end

serve("record", WRITES, function(c)
  local refused = readShapes(c)
  if refused then return refused end
  local total, answers, first = nextNumber(c), {}, c.i
  c.i = c.i + total
  for i = 1, total do
    local h, prefix, parts = c.args[first + i - 1], nextArg(c), nextNumber(c)
    answers[i] = recordEntries(c, first, total, i, prefix, parts) or recordAny(c, h, prefix, parts)
  end
  return { c.at, writeCall(c), answers }
end)

end)
