/**
 * The library of server-side functions: one text, loaded when a store connects and again after a flush or a failover.
 * Its name carries its version; the digest tells builds of one version apart. A change of what a released function
 * takes or answers is a new version.
 */
import { createHash } from "node:crypto";
import { claimLua } from "../runs/claim.lua.ts";
import { settleLua } from "../runs/settle.lua.ts";
import { extendLua } from "../runs/extend.lua.ts";
import { submitLua } from "../jobs/submit.lua.ts";
import { readLua } from "../jobs/read.lua.ts";
import { changeLua } from "../jobs/change.lua.ts";
import { unreadableLua } from "../jobs/unreadable.lua.ts";
import { gateCallsLua } from "../limits/gate-calls.lua.ts";
import { docsLua } from "../documents/docs.lua.ts";
import { dueLua } from "../upkeep/due.lua.ts";
import { pruneLua } from "../upkeep/prune.lua.ts";
import { auditLua } from "../upkeep/audit.lua.ts";
import { auditLanesLua } from "../upkeep/audit-lanes.lua.ts";
import { enterLua } from "../connection/enter.lua.ts";
import { flushLua } from "./flush.lua.ts";
import { constantsLua } from "./constants.lua.ts";
import { inOrder, luaOf } from "./lua.ts";
import type { LuaModule } from "./lua.ts";
import { pathsLua, serverPaths } from "./path-branches.ts";

/** Grows with each release that changes the library's text: a process never replaces a higher build by its own. */
export const libraryBuild = 1;

/** Of the keys and records; a store of a higher one is refused. */
export const layoutVersion = 1;

/** The modules that register functions or name operations of a flush. */
const served: readonly LuaModule[] = [
  ...[claimLua, settleLua, extendLua, submitLua, readLua, changeLua, unreadableLua, gateCallsLua],
  ...[docsLua, dueLua, pruneLua, auditLua, auditLanesLua, enterLua, flushLua],
];

export const libraryModules = inOrder(served);

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
