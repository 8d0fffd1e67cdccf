/**
 * What becomes of a lane in the usual claim (lane-stretches.ts) where a job is taken that has to be looked at. Is it
 * the last that the lane shows, the lane shows the next ones of its line (lane-shown.ts) or is empty, and all it has
 * shown leaves the line. Else the last one has to be looked at from now on. A lane whose first job is refused by its
 * own cap waits at that gate.
 */

export const laneNextLua = String.raw`
-- The turn of lanes behind a job of this step that is taken now, and of those behind that as far as they are asked for.
local function moveTurn(s, step)
  s.step, s.nextOf = step, s.top
  s.turns = { s.top + (tonumber(step) or 0) }
  s.turnTexts = { num(s.turns[1]) }
  s.stepText, s.midEnding = step .. US, RS .. step
end

-- The turn of the nth job that a lane shows, as a score; that of the one before it is known.
local function turnAt(s, n)
  s.turns[n] = s.turns[n - 1] + (tonumber(s.step) or 0)
  s.turnTexts[n] = num(s.turns[n])
  return s.turnTexts[n]
end

-- The rank of a place, as a score. Many jobs have the same.
local function rankAt(s, place)
  s.ranks[place], s.rankTexts[place] = rankIn(place), scoreIn(place)
  return s.rankTexts[place]
end

-- A record is met with a job that has to be looked at. Answers where the record goes on behind the last job that its lane shows,
-- if it is this one; else the handle of the last one, where the lane shows several by this step; nothing where the lane is not
-- open there.
local function meetRecord(s, text, h, step)
  local head = s.heads[step]
  if not head then
    head = US .. (s.byTurn and step or "") .. US
    s.heads[step] = head
  end
  local isLike = find(text, head, 2, true) == 2
  local at = isLike and 2 + #head or handleAt(text)
  if not at then return nil end
  if find(text, h, at, true) == at then
    at = at + #h + 1 + PLACE_LENGTH
    if find(text, s.ending, at, true) == at then return at + #s.ending end
    return nil
  end
  local stop = isLike and showsMore(text) and find(text, US, at, true)
  local routeAt = stop and stop + 1 + PLACE_LENGTH
  if not stop or find(text, s.behindHandle, routeAt, true) ~= routeAt then return nil end
  return nil, sub(text, at, stop - 1)
end

-- A lane shows a job of another route. Answers false where that goes by another order.
local function showOther(c, s, lane, entry)
  local next = inLine(lane, entry)
  local laned = lanedOf(c, next.route)
  if not laned or laned.byTurn ~= s.byTurn then return false end
  local turn = s.byTurn and s.turnTexts[1] or ""
  add2(s.records, lane, concat({ "", "", next.handle, next.place, next.route, turn, "", "", "" }, US))
  push2(s.come, next.route, s.byTurn and turn or scoreIn(next.place), openEntry(lane, next.handle))
  return true
end

-- Nobody stands behind the job that was taken.
local function emptyLane(s, lane)
  if s.byTurn then
    add2(s.records, lane, US .. US .. US .. US .. US .. s.turnTexts[1] .. US .. US .. US)
    add2(s.idle, s.turnTexts[1], lane)
  else s.emptied[#s.emptied + 1] = lane end
end

-- A lane whose first job is refused by its own cap waits at that gate. Answers false where it is not open.
local function parkLane(s, lane, h, text, key, step)
  local at = meetRecord(s, text, h, step)
  if not at then return false end
  local place = sub(text, at - #s.ending - PLACE_LENGTH, at - #s.ending - 1)
  local turn, standing = s.byTurn and s.atText or "", s.byTurn and placeText(s.at) or place
  add2(s.records, lane, concat({ "", "", h, place, s.route, turn, key, "", sub(text, at) }, US))
  add2(s.parked, "0", concat({ key, s.route, standing .. h, lane }, US))
  return true
end

-- How many a lane shows next whose record this is, behind the last that it shows: one where it was refused before, else
-- four times as many.
local function reachOf(text)
  local first = byte(text)
  return first == US_BYTE and 1 or min(4 * (first - ZERO_BYTE), SHOWN_MAX)
end

-- A lane that was taken from shows this job first.
local function setBound(s, place, h)
  local position = s.byTurn and s.turns[1] or s.ranks[place]
  if position < s.boundAt or position == s.boundAt and h < s.boundHandle then s.boundAt, s.boundHandle = position, h end
end

-- A lane shows up to so many of its line behind an entry. Answers whether the line is as usual.
local function showLine(c, s, lane, entry, most)
  local entries = call("ZRANGE", c.k.line, "(" .. entry, "(" .. lane .. BEHIND_US, "BYLEX", "LIMIT", "0", num(most + 1))
  local come, ending, placeAt, byTurn = s.come[s.route], s.behindHandle, #lane + 2, s.byTurn
  local texts, laneEnding, placeEnd, n, z = byTurn and s.turnTexts or s.rankTexts, US .. lane, placeAt + PLACE_LENGTH, 0, #come
  local midEnding, h, place = laneEnding .. s.midEnding, nil, nil
  for i = 1, min(#entries, most) do
    local each = entries[i]
    local stop = find(each, ending, placeEnd, true)
    if not stop then break end
    n, h = i, sub(each, placeEnd, stop - 1)
    if byTurn then come[z + 1] = texts[n] or turnAt(s, n)
    else
      place = sub(each, placeAt, placeEnd - 1)
      come[z + 1] = texts[place] or rankAt(s, place)
    end
    come[z + 2] = h .. midEnding
    z = z + 2
    if n == 1 then setBound(s, place, h) end
  end
  if n > 0 then
    come[z] = h .. laneEnding
    place = place or sub(entries[n], placeAt, placeEnd - 1)
    local turn, alone = byTurn and texts[n] or "", n == #entries and ALONE or ""
    if n == 1 and alone == ALONE then s.gone[#s.gone + 1] = entries[1] end
    add2(s.records, lane, SHOWN[n] .. US .. s.stepText .. h .. US .. place .. ending .. US .. turn .. US .. US .. US .. alone)
  elseif entries[1] then return showOther(c, s, lane, entries[1])
  else emptyLane(s, lane) end
  return true
end

-- The last job that a lane shows is taken, behind which its record goes on there. Answers whether that is as usual.
local function takeLast(c, s, h, lane, text, at)
  local placeEnd, isAlone, isMany = at - #s.ending, byte(text, at) == ALONE_BYTE, showsMore(text)
  if isAlone then emptyLane(s, lane) end
  if isAlone and not isMany then return true end
  local entry = lane .. US .. sub(text, placeEnd - PLACE_LENGTH, placeEnd - 1) .. h .. s.behindHandle
  if not isAlone and not showLine(c, s, lane, entry, reachOf(text)) then return false end
  if isMany then add2(s.ranges, lane .. US, entry) else s.gone[#s.gone + 1] = entry end
  return true
end

-- The last jobs of lanes that were looked at and show others are looked at when they are taken.
local function writeLooks(c, s)
  local gone, come = {}, {}
  for h, look in pairs(s.looks or NONE) do
    local _, step, _, place, _, turn = match(look.text, LANE_PATTERN)
    gone[#gone + 1] = midEntry(look.lane, h, step)
    add2(come, s.byTurn and turn or scoreIn(place), openEntry(look.lane, h))
  end
  many("ZREM", c.k.open .. s.route, gone)
  many("ZADD", c.k.open .. s.route, come)
end
`;
