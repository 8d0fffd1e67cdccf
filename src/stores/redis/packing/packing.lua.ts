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
import { fieldNames, isClearedBy, jobFields } from "../../../store/job-fields.ts";
import type { JobField } from "../../../store/job-fields.ts";
import {
  asInSpec,
  flags,
  headFields,
  initialText,
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
import { lua, luaText, luaModule } from "../library/lua.ts";

/** Lua's own limit for one pattern. One capture is kept for the place where the next pattern goes on. */
const capturesMax = 32;
export const captured = String.raw`([^\31]*)`;
export const skipped = String.raw`[^\31]*`;
const fieldEnd = String.raw`\31`;
const counted: readonly PackedName[] = ["rev", "attempt"];

const inTable = (table: string, names: readonly string[]): string =>
  names.map((name) => `${table}.${name}`).join(", ");
/** specDueAt: what the spec says, while the job may stand elsewhere by now. */
const ofSpec = (name: string): string => `spec${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;

/**
 * Reads fields of `text` from `at` on into a table. Each has its end, but the last one of a whole text has none; else
 * `at` is left behind it.
 */
function readLua(table: string, names: readonly string[], isWhole: boolean): string {
  const lines: string[] = [];
  for (let from = 0; from < names.length; from += capturesMax - 1) {
    const some = names.slice(from, from + capturesMax - 1);
    const isLast = isWhole && from + some.length === names.length;
    const fields = some.map(() => captured).join(fieldEnd);
    lines.push(
      isLast
        ? `${inTable(table, some)} = match(text, "^${fields}$", at)`
        : `${inTable(table, some)}, at = match(text, "^${fields}${fieldEnd}()", at)`,
    );
  }
  return lines.join("\n  ");
}

/** Whether the fields were read at all, and numbers are numbers; before anything is made of them. */
function soundLua(names: readonly PackedName[], rules: SameRules): string {
  const firsts = names.filter((_, at) => at % (capturesMax - 1) === 0).map((name) => `job.${name}`);
  const numbers = names.flatMap((name) => {
    if (name === "flags" || name === "uses" || name === "route" || name === "state") return [];
    const { type, isNullable } = jobFields[name] as JobField;
    if (type === "flag") return [`(job.${name} == "0" or job.${name} == "1")`];
    if (type !== "integer") return [];
    const others = [rules[name]?.written, isNullable === true ? "" : undefined].filter(
      (text) => text !== undefined,
    );
    const isOther = [...new Set(others)].map((text) => `job.${name} == ${luaText(text)} or `).join("");
    return [`(${isOther}isNumber(job.${name}))`];
  });
  return [...firsts, ...numbers].join(" and ");
}

type Patterns = Readonly<Partial<Record<PackedName, string>>>;
/** Fields with their ends, each by its own pattern, else skipped; then where the next one begins. */
export const patternOf = (names: readonly PackedName[], patterns: Patterns = {}): string =>
  `^${names.map((name) => `${patterns[name] ?? skipped}${fieldEnd}`).join("")}()`;
const plainNumbers = { createdAt: "%d+()", dueAt: "", rank: "%-?%d*" };
/** A spec without flags, due when it was made: where its time ends, route, and where its tail begins. */
const plainPattern = patternOf(shortHead, { flags: "", route: captured, ...plainNumbers });
export const initials = Object.fromEntries(
  [...saidFields, ...rareFields].map((name) => [name, initialText(name)]),
);
export const sureNumbers = {
  createdAt: "%d+",
  dueAt: "",
  rank: "%-?%d*",
  deadlineAt: "",
  ttlAt: "",
  digest: "",
};
/** Up to the end of its lease, of the rest of a state behind the end of the id: where its times begin and end. */
const throughLease = restFields.slice(0, restFields.indexOf("leaseEndsAt") + 1);
const timesPattern = patternOf(throughLease, {
  ...{ attempts: "", progress: "", claimedAt: "()%d+()", startedAt: "=?", leaseEndsAt: "()%d+()" },
}).replace("^", `^${fieldEnd}`);
/** A state whose flags have that of a flow. */
const before = (name: PackedName): readonly PackedName[] => stateFields.slice(0, stateFields.indexOf(name));
const flowPattern = `${patternOf(before("flags")).replace("()", "")}${skipped}${flags.flow}`;
const states = Object.values(stateCodes).map((code) => `["${code}"] = true`);

const sameLines = (rules: SameRules): string =>
  Object.entries(rules)
    .map(
      ([name, { as, written }]) => `if job.${name} == ${luaText(written)} then job.${name} = job.${as} end`,
    )
    .join("\n  ");

function writeLua(names: readonly PackedName[], rules: SameRules): string {
  return names
    .map((name) => {
      const rule = rules[name];
      return rule === undefined
        ? `job.${name}`
        : `job.${name} == job.${rule.as} and ${luaText(rule.written)} or job.${name}`;
    })
    .join(", ");
}

const stateRules: SameRules = {
  ...sameInState,
  ...Object.fromEntries(asInSpec.map((name) => [name, { as: ofSpec(name), written: "" }])),
};
/** Of a state that is read for many jobs, what each takes from its own fields stays as it is written. */
const leftAsWritten = Object.values(stateRules)
  .filter(({ as }) => !restFields.includes(as as PackedName))
  .map(({ as, written }) => `${as} = ${luaText(written)}`);
const rememberSpec = `${inTable("job", asInSpec.map(ofSpec))} = ${inTable("job", asInSpec)}`;
const readCounted = `${inTable("job", counted)} = ${counted.map((name) => `tonumber(job.${name})`).join(", ")}`;

const ofLanes: readonly string[] = ["laneKey", "laneStep", "laneGates"];
const hasRare = ["digest" as const, ...saidFields.filter((name) => !ofLanes.includes(name)), ...rareFields]
  .map((name) => `job.${name} ~= ${luaText(initialText(name))}`)
  .join(" or ");
const leftOut = [...headFields.slice(shortHead.length), ...ownFields];
const initialOf = (name: PackedName): string =>
  counted.includes(name) ? initialText(name) : luaText(initialText(name));
const newFields = [...new Set([...headFields, ...ownFields, ...stateFields])].map(
  (name) => `${name} = ${initialOf(name)}`,
);

type Rule = Parameters<typeof isClearedBy>[0];
/** Sets back what the table says that a rule clears. */
function clearLua(rule: Rule): string {
  const names = fieldNames(
    (field: JobField, name) => isClearedBy(rule)(field) && stateFields.includes(name as PackedName),
  );
  return `${inTable("job", names)} = ${names.map(initialOf).join(", ")}`;
}

/** `a, b = match(text, …)`: some fields of a text, without the others. */
export function pickLua(
  text: string,
  names: readonly PackedName[],
  fields: readonly PackedName[] = stateFields,
): string {
  const inOrder = fields.filter((name) => names.includes(name));
  const last = fields.indexOf(inOrder.at(-1) as PackedName);
  const pattern = fields.slice(0, last + 1).map((name) => (inOrder.includes(name) ? captured : skipped));
  return `${inOrder.join(", ")} = match(${text}, "^${pattern.join(fieldEnd)}")`;
}

/** The values of a template's holes between the parts of its text from one on, in the order of the text. */
function fillLua(first: number, names: readonly PackedName[]): string {
  const inOrder = restFields.filter((name) => names.includes(name));
  return `parts[${first}]${inOrder.map((name, at) => ` .. ${name} .. parts[${first + at + 1}]`).join("")}`;
}

export const packingLua = luaModule({
  name: "packing/packing",
  gives: [
    "inputAt inputBytes newJob flagsOf readSpec readOwn readTail tailText headOf specOf readRest",
    "readState isOfFlow restOf stateOf cutTimes fillEnding fillFirst sharedOf readPlain keysIn",
    "clearForLease clearForPlace clearForFinish clearForReplay",
  ],
  source: lua`
local STATES = { ${states.join(", ")} }

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
  local at = match(spec, isShortSpec(spec) and "${patternOf(shortHead)}" or "${patternOf([...headFields, ...ownFields])}")
  at = at and inputAt(spec, at)
  return at and #spec - at + 1 or 0
end

local function newJob() return { ${newFields.join(", ")} } end

local function flagsOf(job)
  return (job.uniqueKey ~= "" and HAS_KEY or "") .. (job.tags ~= "" and HAS_TAGS or "")
    .. ((job.deadlineAt ~= "" or job.ttlAt ~= "") and HAS_CLOCKS or "")
    .. ((${hasRare}) and HAS_RARE or "") .. (job.hasLines and HAS_LINES or "")
    .. (job.laneKey ~= "" and HAS_LANE .. (job.laneGates ~= "" and HAS_GATES or "") or "")
    .. (job.waits ~= "" and HAS_FLOW or "")
end

-- job.tailAt: where the tail begins. Answers whether it is a spec.
local function readSpec(job, text)
  local at = 1
  if isShortSpec(text) then
    ${readLua("job", shortHead, false)}
    ${inTable("job", leftOut)} = ${leftOut.map(initialOf).join(", ")}
  else
    ${readLua("job", [...headFields, ...ownFields], false)}
  end
  if not (at and inputAt(text, at) and ${soundLua([...headFields, ...ownFields], sameInSpec)}) then return false end
  ${sameLines(sameInSpec)}
  ${rememberSpec}
  job.tailAt = at
  return true
end

-- What a submit sends of the single job: own fields and tail.
local function readOwn(job, text)
  local at = 1
  ${readLua("job", ownFields, false)}
  job.tail = sub(text, at)
end

local function readTail(text)
  local tail, at = {}, 1
  ${readLua("tail", tailFields, true)}
  return tail
end

local function tailText(tail) return concat({ ${inTable("tail", tailFields)} }, US) end

local function headOf(job)
  ${rememberSpec}
  if job.flags == "" then return concat({ ${writeLua(shortHead, sameInSpec)} }, US) end
  return concat({ ${writeLua(headFields, sameInSpec)} }, US)
end

local function specOf(job)
  if job.flags == "" then return headOf(job) .. US .. job.tail end
  return concat({ headOf(job), ${inTable("job", ownFields)}, job.tail }, US)
end

-- A state behind its fence and id. Where the spec was not read, what is as in the spec stays nothing, and is written as
-- it was. Answers whether it is one.
local function readRest(job, text, at)
  ${readLua("job", restFields, true)}
  if not (${soundLua(restFields, stateRules)}) then return false end
  ${sameLines(stateRules)}
  ${readCounted}
  job.hasLines = find(job.flags, HAS_LINES, 1, true) ~= nil
  return true
end

-- The same where others of the call had the same text there: what was read of it is copied. alike: by that text.
local function recallRest(job, text, at, alike)
  local rest = sub(text, at)
  local known = alike[rest]
  if not known then
    known = { ${leftAsWritten.join(", ")} }
    if not readRest(known, rest, 1) then return false end
    alike[rest] = known
  end
  ${inTable("job", restFields)} = ${inTable("known", restFields)}
  ${sameLines(stateRules)}
  job.hasLines = known.hasLines
  return true
end

-- alike: as above, where others are read with it.
local function readState(job, text, alike)
  local at = 1
  ${readLua("job", stateFields.slice(0, -restFields.length), false)}
  if not at or not STATES[job.state] or not isNumber(job.fence) then return false end
  if alike then return recallRest(job, text, at, alike) end
  return readRest(job, text, at)
end

-- Whether a state is that of a job of a flow.
local function isOfFlow(state) return find(state, "${flowPattern}") == 1 end

local function restOf(job) return concat({ ${writeLua(restFields, stateRules)} }, US) end

local function stateOf(job)
  return concat({ ${inTable("job", stateFields.slice(0, -restFields.length))}, restOf(job) }, US)
end

-- What a running job's state has behind its id, without the times of its claim and its lease, and the first of these.
-- Nothing for a job that has more of its own there: attempts, progress or a reported start.
local function cutTimes(rest)
  local claimed, claimedEnd, leased, leasedEnd = match(rest, "${timesPattern}")
  if not leased then return nil end
  return sub(rest, 1, claimed - 1) .. HOLE .. sub(rest, claimedEnd, leased - 1) .. HOLE .. sub(rest, leasedEnd),
    sub(rest, claimed, claimedEnd - 1)
end

-- What a finished job's state has between its attempts and its result, from a template with holes there and for these
-- times.
local function fillEnding(parts, claimedAt, endedAt) return ${fillLua(2, ["claimedAt", "endedAt"])} end

-- A state behind its id, from a template with holes for the id and the times of the claim.
local function fillFirst(parts, claimedAt, leaseEndsAt) return ${fillLua(2, ["claimedAt", "leaseEndsAt"])} end

-- What a plain job of a route that was due when it was made has between its id, which stops here, and its input; nothing
-- for others. known: the same of another such job, which most likely differs in its time alone.
local function readShared(spec, stop, route, known)
  local at = known and find(spec, known.behind, stop + 1, true)
  if at and find(sub(spec, stop + 1, at - 1), "^%d+$") then
    return { text = sub(spec, stop, at + #known.behind - 1), behind = known.behind }
  end
  local at, own, tail = match(spec, "${plainPattern}")
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

local function clearForLease(job) ${clearLua("lease")} end
local function clearForPlace(job) ${clearLua("place")} end
local function clearForFinish(job) ${clearLua("finish")} end
local function clearForReplay(job) ${clearLua("replay")} end
`,
});
