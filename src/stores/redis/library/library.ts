/**
 * The library of server-side functions: one text, loaded when a store connects and again after a flush or a failover.
 * Its name carries its version; the digest tells builds of one version apart. A change of what a released function
 * takes or answers is a new version.
 */
import { createHash } from "node:crypto";
import { admitLua } from "../limits/admit.lua.ts";
import { arriveLua } from "../flows/arrive.lua.ts";
import { asideLua } from "../jobs/unreadable.lua.ts";
import { auditLanesLua } from "../upkeep/audit-lanes.lua.ts";
import { auditLua } from "../upkeep/audit.lua.ts";
import { callLua } from "./call.lua.ts";
import { changeLua } from "../jobs/change.lua.ts";
import { claimLaneSetLua } from "../groups/claim-lane-set.lua.ts";
import { claimLanesLua } from "../groups/claim-lanes.lua.ts";
import { claimLua } from "../runs/claim.lua.ts";
import { clocksLua } from "./clocks.lua.ts";
import { constantsLua } from "./constants.lua.ts";
import { docsLua } from "../documents/docs.lua.ts";
import { dueLua } from "../upkeep/due.lua.ts";
import { enterLua } from "../connection/enter.lua.ts";
import { extendLua } from "../runs/extend.lua.ts";
import { firstClaimsLua } from "../runs/first-claims.lua.ts";
import { flowPackingLua } from "../flows/flow-packing.lua.ts";
import { freeManyLua } from "../flows/free-many.lua.ts";
import { gateCallsLua } from "../limits/gate-calls.lua.ts";
import { gatesLua } from "../limits/gates.lua.ts";
import { jobLua } from "../jobs/job.lua.ts";
import { keyGatesLua } from "../limits/key-gates.lua.ts";
import { laneCandidatesLua } from "../groups/lane-candidates.lua.ts";
import { laneEndsLua } from "../groups/lane-ends.lua.ts";
import { laneKindsLua } from "../groups/lane-kinds.lua.ts";
import { laneJoinsLua } from "../groups/lane-joins.lua.ts";
import { lanePackingLua } from "../groups/lane-packing.lua.ts";
import { laneTextsLua } from "../groups/lane-texts.lua.ts";
import { lanesLua } from "../groups/lanes.lua.ts";
import { listsLua } from "./values.lua.ts";
import { lookLua } from "../runs/ready-jobs.lua.ts";
import { luaOf } from "./lua.ts";
import { packingLua } from "../packing/packing.lua.ts";
import { passOnLua } from "../flows/pass-on.lua.ts";
import { pathsLua, serverPaths } from "./path-branches.ts";
import { pruneLua } from "../upkeep/prune.lua.ts";
import { readLua } from "../jobs/read.lua.ts";
import { rulesLua } from "../jobs/rules.lua.ts";
import { settleLua } from "../runs/settle.lua.ts";
import { submitLua } from "../jobs/submit.lua.ts";
import { targetsLua } from "../flows/targets.lua.ts";
import { tellLua } from "../feed/emit.lua.ts";
import { lapLua } from "./flush.lua.ts";
import { uniqueLua } from "../jobs/unique.lua.ts";
import { waitingLanesLua } from "../groups/waiting-lanes.lua.ts";
import { writeLua } from "./commit.lua.ts";

/** Grows with each release that changes the library's text: a process never replaces a higher build by its own. */
export const libraryBuild = 1;

/** Of the keys and records; a store of a higher one is refused. */
export const layoutVersion = 1;

/** In the order in which they use each other. */
export const libraryModules: readonly string[] = [
  ...[
    listsLua,
    packingLua,
    lanePackingLua,
    flowPackingLua,
    callLua,
    clocksLua,
    tellLua,
    gatesLua,
    keyGatesLua,
    laneTextsLua,
    lanesLua,
    waitingLanesLua,
  ],
  ...[
    laneJoinsLua,
    laneEndsLua,
    asideLua,
    jobLua,
    uniqueLua,
    rulesLua,
    writeLua,
    docsLua,
    arriveLua,
    targetsLua,
    freeManyLua,
    passOnLua,
    submitLua,
    admitLua,
    lookLua,
  ],
  ...[
    firstClaimsLua,
    laneCandidatesLua,
    laneKindsLua,
    claimLaneSetLua,
    claimLanesLua,
    claimLua,
    settleLua,
    lapLua,
    changeLua,
    readLua,
  ],
  ...[extendLua, dueLua, pruneLua, auditLua, auditLanesLua, gateCallsLua, enterLua],
];

export interface LibraryOptions {
  readonly modules?: readonly string[];
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
  const build = `function() return "${libraryBuild} ${libraryDigest}" end`;
  return `#!lua name=millrace_v1
${text}
redis.register_function({ function_name = "mr1_build", flags = { "no-writes" }, callback = ${build} })
`;
}

export const libraryText = libraryOf(body);
