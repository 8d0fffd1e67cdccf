/** Every function of the store, version 1, in the order in which they can be made. */
import { auditSql } from "./audit.ts";
import { changeSql } from "./change.ts";
import { claimSql } from "./claim.ts";
import { docsSql } from "./docs.ts";
import { dueSql } from "./due.ts";
import { extendSql } from "./extend.ts";
import { feedSql } from "./feed.ts";
import { jobSql } from "./job.ts";
import { pruneSql } from "./prune.ts";
import { readSql } from "./read.ts";
import { settleSql } from "./settle.ts";
import { stepSql } from "./step.ts";
import { submitOneSql } from "./submit-one.ts";
import { submitUnitSql } from "./submit-unit.ts";
import { submitSql } from "./submit.ts";

const parts = [
  ...[
    stepSql,
    jobSql,
    docsSql,
    submitUnitSql,
    submitOneSql,
    submitSql,
    claimSql,
    settleSql,
    extendSql,
    changeSql,
  ],
  ...[dueSql, readSql, feedSql, pruneSql, auditSql],
];

export const functionsSql = (s: string): string => parts.map((part) => part(s)).join("");
