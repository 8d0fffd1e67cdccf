/**
 * The output of jobs: packed frames of their attempts, and a summary.
 *
 *  frames:h    stream   fence-number: a = time, b = chunk       summary:h   string
 *
 * A place is an id of the stream, so a page begins at any place without a search, and an attempt whose fence was
 * superseded could not append after its successor.
 *
 *  a write       1 if older attempts are dropped, the place up to which chunks are dropped ("" for none), number of
 *                texts of the summary (0 or 1), the summary, number of chunks, and per chunk number, text
 *  read_frames   per read: id, the place to begin at ("" for the newest chunk alone), most chunks. Answers now, handles
 *                that have to be repaired (audit.lua.ts), and of each read how the job has ended, summary, then place,
 *                time and text of each chunk; or gone
 */
import { pickPattern } from "../packing/lua-fields.ts";
import { lua, luaModule } from "../library/lua.ts";

export const framesLua = luaModule({
  name: "output/frames",
  takes: ["fetch isTerminal nextArg nextNumber READS serve"],
  gives: ["nextFrames writeFrames"],
  source: lua`
local STATE_OF = ${pickPattern(["state"])}
local FRAME_ARGS = 3

local function nextFrames(c)
  local frames = { restarts = nextArg(c) == "1", from = nextArg(c), chunks = {} }
  if nextNumber(c) == 1 then frames.summary = nextArg(c) end
  for i = 1, nextNumber(c) do
    frames.chunks[i] = { nextArg(c), nextArg(c) }
  end
  return frames
end

-- Guard: the job runs under its lease.
local function writeFrames(c, job, frames)
  local key, summary = c.k.frames .. job.h, c.k.summary .. job.h
  if frames.restarts then
    call("XTRIM", key, "MINID", job.fence .. "-0")
    call("UNLINK", summary)
  end
  for _, chunk in ipairs(frames.chunks) do
    local added = redis.pcall("XADD", key, job.fence .. "-" .. chunk[1], "a", c.at, "b", chunk[2])
    -- A place that is not above the last one was written before: the call is a repeat.
    if added.err and not find(added.err, "equal or smaller", 1, true) then error(added) end
  end
  if frames.summary then call("SET", summary, frames.summary) end
  if frames.from ~= "" then call("XTRIM", key, "MINID", frames.from) end
end

serve("read_frames", READS, function(c)
  local ids, handles, found, states, answers = {}, {}, {}, {}, {}
  for i = c.i, #c.args, FRAME_ARGS do
    ids[#ids + 1] = c.args[i]
  end
  for i, h in ipairs(fetch("HMGET", c.k.ids, ids)) do
    handles[i] = h
    if h then found[#found + 1] = h end
  end
  for i, state in ipairs(fetch("HMGET", c.k.state, found)) do
    states[found[i]] = state
  end
  for i, h in ipairs(handles) do
    local at = c.i + (i - 1) * FRAME_ARGS
    local from, most = c.args[at + 1], c.args[at + 2]
    -- What nobody has touched waits, and has no output.
    local state = h and (not states[h] and READY or match(states[h], STATE_OF))
    if h and not state then
      c.unreadable[#c.unreadable + 1], h = h, false
    end
    if h then
      local page = { isTerminal(state) and state or "", call("GET", c.k.summary .. h) }
      local chunks = from == "" and call("XREVRANGE", c.k.frames .. h, "+", "-", "COUNT", 1)
        or call("XRANGE", c.k.frames .. h, from, "+", "COUNT", most)
      for _, chunk in ipairs(chunks) do
        page[#page + 1], page[#page + 2], page[#page + 3] = chunk[1], chunk[2][2], chunk[2][4]
      end
      answers[i] = page
    else
      answers[i] = "gone"
    end
  end
  return { c.at, c.unreadable, answers }
end)
`,
});
