/** Every function of the store, version 1, in the order in which they can be made. */
import { asideSql } from "./aside.ts";
import { auditSql } from "./audit.ts";
import { callSql } from "./call.ts";
import { changeSql } from "./change.ts";
import { claimGatesSql } from "./claim-gates.ts";
import { claimLanesSql } from "./claim-lanes.ts";
import { claimSql } from "./claim.ts";
import { gatesSql } from "./gates.ts";
import { docsSql } from "./docs.ts";
import { dueSql } from "./due.ts";
import { extendSql } from "./extend.ts";
import { feedSql } from "./feed.ts";
import { lookAtJobsSql } from "./lane-looks.ts";
import { lanesSql } from "./lanes.ts";
import { pruneSql } from "./prune.ts";
import { readSql } from "./read.ts";
import { routesSql } from "./routes.ts";
import { advanceSql } from "./rules/advance.ts";
import { arriveInOrderSql } from "./rules/arrive-in-order.ts";
import { arriveSql } from "./rules/arrive.ts";
import { blockSql } from "./rules/block.ts";
import { finishSql } from "./rules/finish.ts";
import { growSql } from "./rules/grow.ts";
import { guardSql } from "./rules/guard.ts";
import { laneRuleSql } from "./rules/lane.ts";
import { memberSql } from "./rules/member.ts";
import { meetSql } from "./rules/meet.ts";
import { operateSql } from "./rules/operate.ts";
import { placeSql } from "./rules/place.ts";
import { tellSql } from "./rules/tell.ts";
import { settleSql } from "./settle.ts";
import { submitOneSql } from "./submit-one.ts";
import { submitUnitSql } from "./submit-unit.ts";
import { submitSql } from "./submit.ts";
import { wholeSql } from "./whole.ts";

const rules = [
  ...[tellSql, laneRuleSql, advanceSql, placeSql, finishSql, memberSql, arriveInOrderSql],
  ...[arriveSql, blockSql, growSql],
  ...[operateSql, meetSql, guardSql],
];
const operations = [
  submitUnitSql,
  submitSql,
  submitOneSql,
  claimGatesSql,
  lanesSql,
  lookAtJobsSql,
  claimLanesSql,
  claimSql,
  settleSql,
  extendSql,
  changeSql,
  dueSql,
];
const others = [gatesSql, docsSql, readSql, feedSql, pruneSql, auditSql];

export const functionsSql = [
  ...[callSql, routesSql, wholeSql, asideSql],
  ...rules,
  ...operations,
  ...others,
].join("");
