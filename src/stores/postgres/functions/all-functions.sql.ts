/** Every function of the store, version 1, in an order in which they can be created. */
import { unreadableSql } from "../upkeep/unreadable.sql.ts";
import { auditSql } from "../upkeep/audit.sql.ts";
import { callSql } from "./call.sql.ts";
import { changeSql } from "../jobs/change.sql.ts";
import { claimGatesSql } from "../limits/claim-gates.sql.ts";
import { claimLanesSql } from "../groups/claim-lanes.sql.ts";
import { claimSql } from "../runs/claim.sql.ts";
import { gatesSql } from "../limits/gates.sql.ts";
import { entrySql } from "../journal/entry.sql.ts";
import { framesSql } from "../output/frames.sql.ts";
import { readJournalSql } from "../journal/read-journal.sql.ts";
import { slipSql } from "../journal/slip.sql.ts";
import { addSql } from "../documents/add.sql.ts";
import { docsSql } from "../documents/documents.sql.ts";
import { dueSql } from "../upkeep/due.sql.ts";
import { extendSql } from "../runs/extend.sql.ts";
import { feedSql } from "../feed/feed.sql.ts";
import { laneCandidatesSql } from "../groups/lane-candidates.sql.ts";
import { lanesSql } from "../groups/lanes.sql.ts";
import { pruneSql } from "../upkeep/prune.sql.ts";
import { recordSql } from "../runs/record.sql.ts";
import { readSql } from "../jobs/read.sql.ts";
import { routesSql } from "../jobs/routes.sql.ts";
import { advanceSql } from "../runs/advance.sql.ts";
import { arriveInOrderSql } from "../flows/arrive-in-order.sql.ts";
import { arriveSql } from "../flows/arrive.sql.ts";
import { blockSql } from "../flows/block.sql.ts";
import { finishSql } from "../runs/finish.sql.ts";
import { growSql } from "../flows/grow.sql.ts";
import { guardSql } from "../jobs/guard.sql.ts";
import { laneRuleSql } from "../groups/lane.sql.ts";
import { memberSql } from "../flows/member.sql.ts";
import { meetSql } from "../jobs/meet.sql.ts";
import { operateSql } from "../jobs/operate.sql.ts";
import { placeSql } from "../jobs/place.sql.ts";
import { emitSql } from "../feed/emit.sql.ts";
import { settleSql } from "../runs/settle.sql.ts";
import { submitOneSql } from "../jobs/submit-one.sql.ts";
import { submitUnitSql } from "../jobs/submit-general.sql.ts";
import { submitSql } from "../jobs/submit.sql.ts";
import { eachItemSql } from "./each-item.sql.ts";

const rules = [
  ...[emitSql, laneRuleSql, advanceSql, placeSql, finishSql, memberSql, arriveInOrderSql],
  ...[arriveSql, blockSql, growSql],
  ...[entrySql, operateSql, meetSql, guardSql],
];
const operations = [
  submitUnitSql,
  submitSql,
  submitOneSql,
  claimGatesSql,
  lanesSql,
  laneCandidatesSql,
  claimLanesSql,
  claimSql,
  settleSql,
  extendSql,
  recordSql,
  changeSql,
  dueSql,
];
const others = [
  ...[gatesSql, addSql, docsSql, readSql, framesSql, readJournalSql, slipSql],
  ...[feedSql, pruneSql, auditSql],
];

export const functionsSql = [
  ...[callSql, routesSql, eachItemSql, unreadableSql],
  ...rules,
  ...operations,
  ...others,
].join("\n\n");
