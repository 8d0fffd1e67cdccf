/**
 * What specs of jobs with lanes say of them (packing.lua.ts has the rest). Such jobs come by hundreds and differ in
 * little, so what the last one of a kind had around its lane is compared as a whole before a pattern reads it.
 */
import {
  flags,
  headFields,
  ownFields,
  initialText,
  rareFields,
  saidFields,
} from "../packing/packed-fields.ts";
import { lua, luaModule } from "../library/lua.ts";
import { captured, fieldsPattern, patternOf, skipped } from "../packing/lua-fields.ts";

/** Of fields that no lane has. */
const initials = Object.fromEntries([...saidFields, ...rareFields].map((name) => [name, initialText(name)]));
const sureNumbers = {
  ...{ createdAt: "%d+", dueAt: "", rank: "%-?%d*", deadlineAt: "", ttlAt: "", digest: "" },
};

/**
 * A spec with a unique key, tags or a lane and nothing else beyond a plain one, due when it was made: flags, id, route,
 * how the key is held, lane, step and gates, and where its tail begins.
 */
const firstPattern = patternOf([...headFields, ...ownFields], {
  ...{ flags: `([${flags.key}${flags.tags}${flags.lane}${flags.gates}]+)`, id: captured, route: captured },
  ...{ ...sureNumbers, uniqueHold: captured, ...initials },
  ...{ laneKey: captured, laneStep: "(%d*)", laneGates: captured },
});
/** The same without key and tags: where the time ends, the lane begins, and the gates end, in place of the others. */
export const alikePattern = patternOf([...headFields, ...ownFields], {
  ...{ flags: `([${flags.lane}${flags.gates}]+)`, ...sureNumbers, createdAt: "%d+()", ...initials },
  ...{ laneKey: `()${skipped}`, laneStep: "%d*", laneGates: `${skipped}()` },
});
/** What own fields have before the lane; its key, step and gates stand side by side. */
const laneAt = ownFields.indexOf("laneKey");
const beforeLane = fieldsPattern(
  ownFields.slice(0, laneAt).map(() => skipped),
  { before: "(", after: ")" },
);

export const lanePackingLua = luaModule({
  name: "groups/lane-packing",
  takes: ["inputAt"],
  gives: ["readFirst laneInBody"],
  source: lua`
local FIRST = ${firstPattern}
local BEFORE_LANE = ${beforeLane}

-- Id, flags, lane, step and gates of a job of a route that nobody has touched and that is plain but for its lane, tags
-- and a unique key, held on beyond its start; nothing for others.
local function readFirst(spec, state, route)
  if not spec or state then return nil end
  local flags, id, own, hold, lane, step, gates, tail = match(spec, FIRST)
  if tail and own == route and hold ~= HOLD_STARTED and inputAt(spec, tail) then return id, flags, lane, step, gates end
end

-- Lane and gates in what a submit sends of the single job. last: what the one before had before its lane, which is the
-- same for most.
local function laneInBody(body, last)
  if find(body, last.before, 1, true) ~= 1 then last.before = match(body, BEFORE_LANE) end
  local at = #last.before + 1
  local stop = find(body, US, at, true)
  local stepEnd = find(body, US, stop + 1, true)
  local gatesEnd = find(body, US, stepEnd + 1, true)
  return sub(body, at, stop - 1), sub(body, stepEnd + 1, gatesEnd - 1)
end
`,
});
