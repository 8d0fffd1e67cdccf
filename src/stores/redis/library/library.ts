/**
 * The library of server-side functions: one text, loaded when a store connects and again after a flush or a failover.
 * Its name carries its version; the digest tells builds of one version apart. A change of what a released function
 * takes or answers is a new version.
 */
import { createHash } from "node:crypto";
import { enterLua } from "../connection/enter.lua.ts";
import { addLua } from "../documents/add.lua.ts";
import { documentsLua } from "../documents/documents.lua.ts";
import { journalLua } from "../durable/journal.lua.ts";
import { framesLua } from "../output/frames.lua.ts";
import { readJournalLua } from "../durable/read-journal.lua.ts";
import { recordEntriesLua } from "../durable/record-entries.lua.ts";
import { emitLua } from "../feed/emit.lua.ts";
import { arriveLua } from "../flows/arrive.lua.ts";
import { flowPackingLua } from "../flows/flow-packing.lua.ts";
import { freeManyLua } from "../flows/free-many.lua.ts";
import { passOnLua } from "../flows/pass-on.lua.ts";
import { targetsLua } from "../flows/targets.lua.ts";
import { claimLaneSetLua } from "../groups/claim-lane-set.lua.ts";
import { claimLanesLua } from "../groups/claim-lanes.lua.ts";
import { laneCandidatesLua } from "../groups/lane-candidates.lua.ts";
import { laneEndsLua } from "../groups/lane-ends.lua.ts";
import { laneJoinsLua } from "../groups/lane-joins.lua.ts";
import { laneKindsLua } from "../groups/lane-kinds.lua.ts";
import { lanePackingLua } from "../groups/lane-packing.lua.ts";
import { laneTextsLua } from "../groups/lane-texts.lua.ts";
import { lanesLua } from "../groups/lanes.lua.ts";
import { waitingLanesLua } from "../groups/waiting-lanes.lua.ts";
import { changeLua } from "../jobs/change.lua.ts";
import { jobLua } from "../jobs/job.lua.ts";
import { readLua } from "../jobs/read.lua.ts";
import { rulesLua } from "../jobs/rules.lua.ts";
import { submitLua } from "../jobs/submit.lua.ts";
import { uniqueKeysLua } from "../jobs/unique-keys.lua.ts";
import { unreadableLua } from "../upkeep/unreadable.lua.ts";
import { callLua } from "./call.lua.ts";
import { clocksLua } from "./clocks.lua.ts";
import { commitLua } from "./commit.lua.ts";
import { flushLua } from "./flush.lua.ts";
import { valuesLua } from "./values.lua.ts";
import { admitLua } from "../limits/admit.lua.ts";
import { gateCallsLua } from "../limits/gate-calls.lua.ts";
import { gatesLua } from "../limits/gates.lua.ts";
import { keyGatesLua } from "../limits/key-gates.lua.ts";
import { packingLua } from "../packing/packing.lua.ts";
import { claimLua } from "../runs/claim.lua.ts";
import { extendLua } from "../runs/extend.lua.ts";
import { firstClaimsLua } from "../runs/first-claims.lua.ts";
import { readyJobsLua } from "../runs/ready-jobs.lua.ts";
import { recordLua } from "../runs/record.lua.ts";
import { settleLua } from "../runs/settle.lua.ts";
import { auditLanesLua } from "../upkeep/audit-lanes.lua.ts";
import { auditLua } from "../upkeep/audit.lua.ts";
import { dueLua } from "../upkeep/due.lua.ts";
import { pruneLua } from "../upkeep/prune.lua.ts";
import { constantsLua } from "./constants.lua.ts";
import { inOrder, luaOf } from "./lua.ts";
import type { LuaModule } from "./lua.ts";
import { pathsLua, serverPaths } from "./path-branches.ts";

/** Grows with each release that changes the library's text: a process never replaces a higher build by its own. */
export const libraryBuild = 1;

/** Of the keys and records; a store of a higher one is refused. */
export const layoutVersion = 1;

export const libraryModules: readonly LuaModule[] = inOrder([
  ...[enterLua],
  ...[addLua, documentsLua],
  ...[journalLua, readJournalLua, recordEntriesLua],
  ...[framesLua],
  ...[emitLua],
  ...[arriveLua, flowPackingLua, freeManyLua, passOnLua, targetsLua],
  ...[
    claimLaneSetLua,
    claimLanesLua,
    laneCandidatesLua,
    laneEndsLua,
    laneJoinsLua,
    laneKindsLua,
    lanePackingLua,
    laneTextsLua,
    lanesLua,
    waitingLanesLua,
  ],
  ...[changeLua, jobLua, readLua, rulesLua, submitLua, uniqueKeysLua, unreadableLua],
  ...[callLua, clocksLua, commitLua, flushLua, valuesLua],
  ...[admitLua, gateCallsLua, gatesLua, keyGatesLua],
  ...[packingLua],
  ...[claimLua, extendLua, firstClaimsLua, readyJobsLua, recordLua, settleLua],
  ...[auditLanesLua, auditLua, dueLua, pruneLua],
]);

export interface LibraryOptions {
  readonly modules?: readonly LuaModule[];
  /** The fast paths that the library has; none: only the general ones, so that a test can compare what both leave. */
  readonly paths?: readonly string[];
}

export function buildLibrary({ modules = libraryModules, paths = serverPaths }: LibraryOptions = {}): string {
  return constantsLua + pathsLua(paths) + luaOf(modules);
}

const body = buildLibrary();

export const libraryDigest = createHash("sha256").update(body).digest("hex").slice(0, 16);

/** As the server loads it. It names the digest of the usual build, whatever the body. */
export function libraryOf(text: string): string {
  return `#!lua name=millrace_v1
${text}
local function build() return "${libraryBuild} ${libraryDigest}" end
redis.register_function({ function_name = "mr1_build", flags = { "no-writes" }, callback = build })
`;
}

export const libraryText = libraryOf(body);
