/**
 * The library of server-side functions: one text, loaded when a store connects and again after a flush or a failover.
 * Its name carries its version; the digest tells builds of one version apart. A change of what a released function
 * takes or answers is a new version.
 */
import { createHash } from "node:crypto";
import { admitLua } from "./lua/admit.ts";
import { arriveLua } from "./lua/arrive.ts";
import { asideLua } from "./lua/aside.ts";
import { auditLanesLua } from "./lua/audit-lanes.ts";
import { auditLua } from "./lua/audit.ts";
import { callLua } from "./lua/call.ts";
import { changeLua } from "./lua/change.ts";
import { claimLaneSetLua } from "./lua/claim-lane-set.ts";
import { claimLanesLua } from "./lua/claim-lanes.ts";
import { claimLua } from "./lua/claim.ts";
import { clocksLua } from "./lua/clocks.ts";
import { constantsLua } from "./lua/constants.ts";
import { docsLua } from "./lua/docs.ts";
import { dueLua } from "./lua/due.ts";
import { enterLua } from "./lua/enter.ts";
import { extendLua } from "./lua/extend.ts";
import { firstClaimsLua } from "./lua/first-claims.ts";
import { flowPackingLua } from "./lua/flow-packing.ts";
import { freeManyLua } from "./lua/free-many.ts";
import { gateCallsLua } from "./lua/gate-calls.ts";
import { gatesLua } from "./lua/gates.ts";
import { jobLua } from "./lua/job.ts";
import { keyGatesLua } from "./lua/key-gates.ts";
import { laneCandidatesLua } from "./lua/lane-candidates.ts";
import { laneEndsLua } from "./lua/lane-ends.ts";
import { laneKindsLua } from "./lua/lane-kinds.ts";
import { laneJoinsLua } from "./lua/lane-joins.ts";
import { lanePackingLua } from "./lua/lane-packing.ts";
import { laneTextsLua } from "./lua/lane-texts.ts";
import { lanesLua } from "./lua/lanes.ts";
import { listsLua } from "./lua/lists.ts";
import { lookLua } from "./lua/look.ts";
import { luaOf } from "./lua/lua-module.ts";
import { packingLua } from "./lua/packing.ts";
import { passOnLua } from "./lua/pass-on.ts";
import { pathsLua, serverPaths } from "./lua/path-branches.ts";
import { pruneLua } from "./lua/prune.ts";
import { readLua } from "./lua/read.ts";
import { rulesLua } from "./lua/rules.ts";
import { settleLua } from "./lua/settle.ts";
import { submitLua } from "./lua/submit.ts";
import { targetsLua } from "./lua/targets.ts";
import { tellLua } from "./lua/tell.ts";
import { lapLua } from "./lua/lap.ts";
import { uniqueLua } from "./lua/unique.ts";
import { waitingLanesLua } from "./lua/waiting-lanes.ts";
import { writeLua } from "./lua/write.ts";

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
