/** Unique keys: who holds one, taking it and freeing it (R8). Held until the first claim, until the end, or by time. */
import { lua, luaModule } from "../library/lua.ts";

export const uniqueKeysLua = luaModule({
  name: "jobs/unique-keys",
  takes: ["change jobOf num readFields"],
  gives: ["takerOf takeKey freeKey"],
  source: lua`
-- The record of a key, also of one whose time is over.
local function holderOf(c, key)
  local holder = c.uniq[key]
  if holder == nil then
    local text = call("HGET", c.k.uniq, key)
    holder = text and readFields(text, "holder")
    -- What is no holder holds nothing.
    if holder and not (holder.heldUntil == "" or tonumber(holder.heldUntil or "")) then holder = false end
    c.uniq[key] = holder
  end
  return holder or nil
end

-- Who holds a key now, or nothing. A key that is held by a job ends with it, however the job went.
local function takerOf(c, key)
  local holder = holderOf(c, key)
  if not holder then return nil end
  if holder.heldUntil ~= "" then return tonumber(holder.heldUntil) > c.now and holder or nil end
  return jobOf(c, holder.handle) and holder
end

local function takeKey(c, job)
  local hold = job.uniqueHold
  local isTimed = hold ~= HOLD_STARTED and hold ~= HOLD_END
  local heldUntil = isTimed and num(c.now + hold) or ""
  change(c, "uniq", job.uniqueKey, { handle = job.h, hold = hold, heldUntil = heldUntil, id = job.id })
end

-- The job frees its key, where it holds it and the key is held in one of these ways; without any, however it is held.
local function freeKey(c, job, hold, other)
  if job.uniqueKey == "" then return end
  local holder = holderOf(c, job.uniqueKey)
  if not holder or holder.handle ~= job.h then return end
  if not hold or holder.hold == hold or holder.hold == other then change(c, "uniq", job.uniqueKey, false) end
end
`,
});
