/**
 * read_journal: pages of journals. Lua hashes every character that it reads: 512 KB take 2 ms. So a call stops after
 * about 512 KB. It is sent again for the reads that it has not reached.
 *
 *  args     per read: id, after, max, and of the lease that must be the current one handle and fence ("" for none)
 *  answer   now, handles that have to be repaired (audit.lua.ts), and of the first reads: last number, marks, then the
 *           entries; or gone or stale
 */
import { pickPattern } from "../packing/lua-fields.ts";
import { lua, luaModule } from "../library/lua.ts";

export const readJournalLua = luaModule({
  name: "durable/read-journal",
  takes: ["fetch journalIn READS serve"],
  source: lua`
local STATE_HEAD = ${pickPattern(["state", "fence", "flags"])}
local BYTES_MAX, ARGS = 524288, 5
-- How many entries are read first, and at most at once: their size is not known before.
local FIRST_READ, READ_MAX = 1, 1000

-- Appends a page to a list. Answers how many bytes it has.
local function readPage(c, h, after, most, room, page)
  local bytes, step = 0, FIRST_READ
  while most > 0 and bytes < room do
    local found = call("LRANGE", c.k.journal .. h, after, after + min(step, most) - 1)
    for _, text in ipairs(found) do
      page[#page + 1], bytes = text, bytes + #text
    end
    if #found < min(step, most) then break end
    after, most = after + #found, most - #found
    step = min(READ_MAX, max(1, floor(step * min(8, (room - bytes) / max(1, bytes)))))
  end
  return bytes
end

serve("read_journal", READS, function(c)
  local ids, handles, found, answers, room = {}, {}, {}, {}, BYTES_MAX
  for i = c.i, #c.args, ARGS do
    ids[#ids + 1] = c.args[i]
  end
  for i, h in ipairs(fetch("HMGET", c.k.ids, ids)) do
    handles[i] = h
    if h then found[#found + 1] = h end
  end
  local states = {}
  for i, state in ipairs(fetch("HMGET", c.k.state, found)) do
    states[found[i]] = state
  end
  for i, h in ipairs(handles) do
    if room <= 0 then break end
    local _, after, most, leased, fence = unpack(c.args, c.i + (i - 1) * ARGS, c.i + i * ARGS - 1)
    local state, own, flags = nil, nil, nil
    -- What nobody has touched is not running, and has no journal.
    if h and states[h] then
      state, own, flags = match(states[h], STATE_HEAD)
    elseif h then
      state, own, flags = READY, "0", ""
    end
    local durable, last = journalIn(flags or "")
    if h and not (state and durable) then
      c.unreadable[#c.unreadable + 1], h = h, false
    end
    if not h then
      answers[i] = "gone"
    elseif leased ~= "" and not (state == RUNNING and leased == h and fence == own) then
      answers[i] = "stale"
    else
      local page = { last, durable }
      if last > tonumber(after) then room = room - readPage(c, h, tonumber(after), tonumber(most), room, page) end
      answers[i] = page
    end
  end
  return { c.at, c.unreadable, answers }
end)
`,
});
