/**
 * Reads and writes the two texts of a job by the names of its fields. All of it follows from packed-fields.ts: a field
 * that is added to the table of fields (store/job-fields.ts) is carried from here on. Values stay the texts they are
 * stored as, so that nothing is rounded; only what is counted up is a number. "" is none.
 *
 * A text that was not written by this library is no job: its readers answer false, and never raise (unreadable.lua.ts).
 *
 * A **template** is a job with HOLE in place of what differs from job to job: the rules change it once, and its text,
 * parted at the holes, is joined with the values of each job that is alike. So the fast paths leave what the rules
 * leave.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { lua, luaModule, luaSet, luaText, wrapped } from "../library/lua.ts";
import {
  assigned,
  captured,
  clearing,
  countedOf,
  fieldReader,
  fieldsPattern,
  hasAny,
  initialOf,
  inTable,
  isSound,
  patternOf,
  readSame,
  skipped,
  writeSame,
} from "./lua-fields.ts";
import {
  asInSpec,
  flags,
  headFields,
  ownFields,
  rareFields,
  restFields,
  saidFields,
  sameInSpec,
  sameInState,
  shortHead,
  stateFields,
  tailFields,
} from "./packed-fields.ts";
import type { PackedName, SameRules } from "./packed-fields.ts";

/** specDueAt: what the spec says, while the job may stand elsewhere by now. */
const ofSpec = (name: string): string => `spec${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
const rememberSpec = `${inTable("job", asInSpec.map(ofSpec))} = ${inTable("job", asInSpec)}`;

const firstFields = [...headFields, ...ownFields];
const leftOut = [...headFields.slice(shortHead.length), ...ownFields];
const newFields = [...new Set([...firstFields, ...stateFields])].map(
  (name) => `${name} = ${initialOf(name)}`,
);
/** Of the journal of a durable run, which stands before the flags of a state (durable/journal.lua.ts). */
const newHead = ['durable = "0"', "last = 0", 'unread = ""'];
const leaseFields = stateFields.slice(0, -restFields.length);
const ofLanes: readonly string[] = ["laneKey", "laneStep", "laneGates"];
const rare = ["digest" as const, ...saidFields.filter((name) => !ofLanes.includes(name)), ...rareFields];

const shortHeadIn = fieldReader("SHORT_HEAD", shortHead);
const headIn = fieldReader("HEAD", firstFields);
const ownIn = fieldReader("OWN", ownFields);
const tailIn = fieldReader("TAIL", tailFields, true);
const leaseIn = fieldReader("LEASE", leaseFields);
const restIn = fieldReader("REST", restFields, true);
const readers = [shortHeadIn, headIn, ownIn, tailIn, leaseIn, restIn];

const stateRules: SameRules = {
  ...sameInState,
  ...Object.fromEntries(asInSpec.map((name) => [name, { as: ofSpec(name), written: "" }])),
};
/** Of a state that is read for many jobs, what each takes from its own fields stays as it is written. */
const leftAsWritten = Object.values(stateRules)
  .filter(({ as }) => !restFields.includes(as as PackedName))
  .map(({ as, written }) => `${as} = ${luaText(written)}`);

/** A spec without flags, due when it was made: where its time ends, route, and where its tail begins. */
const plainPattern = patternOf(shortHead, {
  ...{ flags: "", route: captured, createdAt: "%d+()", dueAt: "", rank: "%-?%d*" },
});
/** Up to the end of its lease, of the rest of a state after the end of the id: where its times begin and end. */
const timesPattern = patternOf(
  restFields.slice(0, restFields.indexOf("leaseEndsAt") + 1),
  { attempts: "", progress: "", claimedAt: "()%d+()", startedAt: "=?", leaseEndsAt: "()%d+()" },
  String.raw`\31`,
);
/** A state whose flags have that of a flow. */
const beforeFlags = stateFields.slice(0, stateFields.indexOf("flags"));
const flowPattern = fieldsPattern(
  beforeFlags.map(() => skipped),
  { after: `${skipped}${flags.flow}` },
);

const markedFlags = "withJournal(job.durable, job.last, job.unread, job.flags)";

/** The values of a template's holes between the parts of its text from the second on, in the order of the text. */
function filled(...names: readonly PackedName[]): string {
  const inOrder = restFields.filter((name) => names.includes(name));
  return `parts[2]${inOrder.map((name, at) => `\n  .. ${name} .. parts[${at + 3}]`).join("")}`;
}

export const packingLua = luaModule({
  name: "packing/packing",
  takes: ["num"],
  gives: [
    "inputAt inputBytes journalIn newJob withJournal flagsOf readSpec readOwn readTail tailText headOf specOf readRest",
    "readState isOfFlow restOf stateOf cutTimes fillEnding fillFirst sharedOf readPlain keysIn",
    "clearForLease clearForPlace clearForFinish clearForReplay",
  ],
  source: lua`
local STATES = ${luaSet(Object.values(stateCodes).map((code) => luaText(String(code))))}
-- How the fields of each text are taken.
${readers.map(({ patterns }) => patterns).join("\n")}
local SHORT_HEAD_END = ${patternOf(shortHead)}
local HEAD_END = ${patternOf(firstFields)}
local PLAIN = ${plainPattern}
local TIMES = ${timesPattern}
local FLOW = ${flowPattern}

local function isNumber(text) return find(text, "^%-?%d+$") end

-- Where the last field of the tail that begins here begins: the input. Nothing where there is no such tail.
local function inputAt(text, at)
  for _ = 2, ${tailFields.length} do
    local stop = find(text, US, at, true)
    if not stop then return nil end
    at = stop + 1
  end
  return not find(text, US, at, true) and at or nil
end

local function isShortSpec(spec) return find(spec, US, 1, true) == 1 end

local function inputBytes(spec)
  local at = match(spec, isShortSpec(spec) and SHORT_HEAD_END or HEAD_END)
  at = at and inputAt(spec, at)
  return at and #spec - at + 1 or 0
end

local function newJob() return { ${wrapped([...newFields, ...newHead])} } end

local function hasRare(job) return ${hasAny(rare)} end

local function flagsOf(job)
  return (job.uniqueKey ~= "" and HAS_KEY or "")
    .. (job.tags ~= "" and HAS_TAGS or "")
    .. ((job.deadlineAt ~= "" or job.ttlAt ~= "") and HAS_CLOCKS or "")
    .. (hasRare(job) and HAS_RARE or "")
    .. (job.hasLines and HAS_LINES or "")
    .. (job.hasOutput and HAS_OUTPUT or "")
    .. (job.laneKey ~= "" and HAS_LANE .. (job.laneGates ~= "" and HAS_GATES or "") or "")
    .. (job.waits ~= "" and HAS_FLOW or "")
end

-- job.tailAt: where the tail begins. Answers whether it is a spec.
local function readSpec(job, text)
  local at = 1
  if isShortSpec(text) then
    ${shortHeadIn.into("job")}
    ${assigned("job", leftOut)}
  else
    ${headIn.into("job")}
  end
  local isSpec = at and inputAt(text, at) and ${isSound(firstFields, sameInSpec)}
  if not isSpec then return false end
  ${readSame(sameInSpec)}
  ${rememberSpec}
  job.tailAt = at
  return true
end

-- What a submit sends of the single job: own fields and tail.
local function readOwn(job, text)
  local at = 1
  ${ownIn.into("job")}
  job.tail = sub(text, at)
end

local function readTail(text)
  local tail, at = {}, 1
  ${tailIn.into("tail")}
  return tail
end

local function tailText(tail) return concat({ ${inTable("tail", tailFields)} }, US) end

local function headOf(job)
  ${rememberSpec}
  if job.flags == "" then return concat({ ${writeSame(shortHead, sameInSpec)} }, US) end
  return concat({ ${writeSame(headFields, sameInSpec)} }, US)
end

local function specOf(job)
  if job.flags == "" then return headOf(job) .. US .. job.tail end
  return concat({ headOf(job), ${inTable("job", ownFields)}, job.tail }, US)
end

-- The head of a journal, before the flags: marks, last number, number and size of each unread entry.
local JOURNAL_HEAD, NINE = "^(%d+),(%d+),([%d:.]*)(%l*)$", ${"9".charCodeAt(0)}

-- Marks, last number, unread entries and the flags themselves; nothing for what is no such text.
local function journalIn(flags)
  local first = byte(flags)
  if not first or first > NINE then return "0", 0, "", flags end
  local durable, last, unread, own = match(flags, JOURNAL_HEAD)
  return durable, tonumber(last), unread, own
end

local function withJournal(durable, last, unread, flags)
  if durable == "0" then return flags end
  return concat({ durable, num(last), unread .. flags }, ",")
end

-- A state after its fence and id. Where the spec was not read, what is as in the spec stays nothing, and is written as
-- it was. Answers whether it is one.
local function readRest(job, text, at)
  ${restIn.into("job")}
  local isRest = ${isSound(restFields, stateRules)}
  if not isRest then return false end
  job.durable, job.last, job.unread, job.flags = journalIn(job.flags)
  if not job.durable then return false end
  ${readSame(stateRules)}
  ${countedOf("job")}
  job.hasLines = find(job.flags, HAS_LINES, 1, true) ~= nil
  job.hasOutput = find(job.flags, HAS_OUTPUT, 1, true) ~= nil
  return true
end

-- The same where others of the call had the same text there: what was read of it is copied. alike: by that text.
local function recallRest(job, text, at, alike)
  local rest = sub(text, at)
  local known = alike[rest]
  if not known then
    known = { ${wrapped(leftAsWritten)} }
    if not readRest(known, rest, 1) then return false end
    alike[rest] = known
  end
  ${assigned("job", restFields, (name) => `known.${name}`)}
  job.durable, job.last, job.unread = known.durable, known.last, known.unread
  ${readSame(stateRules)}
  job.hasLines, job.hasOutput = known.hasLines, known.hasOutput
  return true
end

-- alike: as above, where others are read with it.
local function readState(job, text, alike)
  local at = 1
  ${leaseIn.into("job")}
  if not at or not STATES[job.state] or not isNumber(job.fence) then return false end
  if alike then return recallRest(job, text, at, alike) end
  return readRest(job, text, at)
end

-- Whether a state is that of a job of a flow.
local function isOfFlow(state) return find(state, FLOW) == 1 end

local function restOf(job) return concat({ ${writeSame(restFields, stateRules, { flags: markedFlags })} }, US) end

local function stateOf(job) return concat({ ${inTable("job", leaseFields)}, restOf(job) }, US) end

-- What a running job's state has after its id, without the times of its claim and its lease, and the first of these.
-- Nothing for a job that has more of its own there: attempts, progress or a reported start.
local function cutTimes(rest)
  local claimed, claimedEnd, leased, leasedEnd = match(rest, TIMES)
  if not leased then return nil end
  return sub(rest, 1, claimed - 1) .. HOLE .. sub(rest, claimedEnd, leased - 1) .. HOLE .. sub(rest, leasedEnd),
    sub(rest, claimed, claimedEnd - 1)
end

-- What a finished job's state has between its attempts and its result, from a template with holes there and for these
-- times.
local function fillEnding(parts, claimedAt, endedAt) return ${filled("claimedAt", "endedAt")} end

-- A state after its id, from a template with holes for the id and the times of the claim.
local function fillFirst(parts, claimedAt, leaseEndsAt) return ${filled("claimedAt", "leaseEndsAt")} end

-- What a plain job of a route that was due when it was made has between its id, which stops here, and its input;
-- nothing for others. known: the same of another such job, which most likely differs in its time alone.
local function readShared(spec, stop, route, known)
  local at = known and find(spec, known.behind, stop + 1, true)
  if at and find(sub(spec, stop + 1, at - 1), "^%d+$") then
    return { text = sub(spec, stop, at + #known.behind - 1), behind = known.behind }
  end
  local at, own, tail = match(spec, PLAIN)
  local input = tail and own == route and inputAt(spec, tail)
  return input and { text = sub(spec, stop, input - 1), behind = sub(spec, at, input - 1) }
end

-- The text that plain jobs of a route share, as readPlain has met it last; one that no spec has where it has met none.
local function sharedOf(alike, route) return alike[route] and alike[route].text or HOLE end

-- The id of a plain job of a route that was due when it was made; nothing for others. alike: what the last one of a
-- route shared. Jobs that were made in one call share all but id and input, and one comparison reads them.
local function readPlain(spec, route, alike)
  local shared, stop = alike[route], find(spec, US, 2, true)
  if byte(spec) ~= US_BYTE or not stop then return nil end
  if not shared or find(spec, shared.text, stop, true) ~= stop then
    shared = readShared(spec, stop, route, shared)
    if not shared then return nil end
    alike[route] = shared
  end
  if not find(spec, US, stop + #shared.text, true) then return sub(spec, 2, stop - 1) end
end

-- The unique keys of specs; nothing for one that has none, or is none.
local function keysIn(specs)
  local keys = {}
  for i, spec in ipairs(specs) do
    local job = {}
    keys[i] = spec and readSpec(job, spec) and job.uniqueKey ~= "" and job.uniqueKey or false
  end
  return keys
end

${clearing("lease", "clearForLease")}

${clearing("place", "clearForPlace")}

${clearing("finish", "clearForFinish")}

${clearing("replay", "clearForReplay")}
`,
});
