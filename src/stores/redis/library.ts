/**
 * The library of server-side functions: one text, loaded when a store connects and again after a flush or a failover. Its name carries its
 * version; the digest tells builds of one version apart. A change of what a released function takes or answers is a new version.
 */
import { createHash } from "node:crypto";
import { auditLua } from "./lua/audit.ts";
import { baseLua } from "./lua/base.ts";
import { changeLua } from "./lua/change.ts";
import { claimLua } from "./lua/claim.ts";
import { docsLua } from "./lua/docs.ts";
import { dueLua } from "./lua/due.ts";
import { enterLua } from "./lua/enter.ts";
import { extendLua } from "./lua/extend.ts";
import { jobLua } from "./lua/job.ts";
import { pruneLua } from "./lua/prune.ts";
import { readLua } from "./lua/read.ts";
import { settleLua } from "./lua/settle.ts";
import { submitLua } from "./lua/submit.ts";
import { submitClaimLua } from "./lua/submit-claim.ts";
import { submitOneLua } from "./lua/submit-one.ts";
import { writeLua } from "./lua/write.ts";

/** Grows with each release that changes the library's text: a process never replaces a higher build by its own. */
export const libraryBuild = 1;

/** Of the keys and records; a store of a higher one is refused. */
export const layoutVersion = 1;

// In the order in which they use each other.
const parts = [
  ...[baseLua, jobLua, writeLua, submitLua, submitOneLua, claimLua, submitClaimLua],
  ...[settleLua, changeLua, extendLua, dueLua, docsLua, readLua, pruneLua, auditLua, enterLua],
];
const body = parts.join("");

export const libraryDigest = createHash("sha256").update(body).digest("hex").slice(0, 16);

export const libraryText = `#!lua name=millrace_v1
${body}
redis.register_function({ function_name = "mr1_build", flags = { "no-writes" }, callback = function() return "${libraryBuild} ${libraryDigest}" end })
`;
