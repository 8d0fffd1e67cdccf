/** The duties of a process, in the order of a job's life. A new duty is a file beside this one and a line here. */
import type { Needs } from "../services.ts";
import type { HeldLeases } from "../attempts/held-leases.ts";
import { attemptTimeoutDuty } from "./attempt-timeout-duty.ts";
import type { Duty } from "./duty.ts";
import type { DutyName, DutyTuning } from "./duty-tuning.ts";
import { deadlineDuty, timeToLiveDuty } from "./expiry-duties.ts";
import { indexAuditDuty } from "./index-audit-duty.ts";
import { metricsDuty } from "./metrics-duty.ts";
import { noHandlerDuty } from "./no-handler-duty.ts";
import { promoteDuty } from "./promote-duty.ts";
import { reclaimDuty } from "./reclaim-duty.ts";
import { retentionDuty } from "./retention-duty.ts";
import { dueDocumentsDuty } from "./due-documents-duty.ts";
import { webhooksDuty } from "./webhooks-duty.ts";

/** What duties need of the rest of their process. */
export interface DutySurroundings {
  readonly leases: HeldLeases;
  /** Told whether this process is the one that delivers webhooks. */
  readonly deliverWebhooks: (isOurs: boolean) => void;
}

export function allDuties(
  needs: Needs<
    | "store"
    | "platform"
    | "coder"
    | "strideMs"
    | "backoffs"
    | "noHandlerGraceMs"
    | "log"
    | "repeated"
    | "ids"
    | "retention"
    | "changes"
    | "reads"
    | "planner"
    | "submitter"
    | "metrics"
    | "webhookDocs"
    | "queuePolicies"
    | "leadership"
    | "policies"
  >,
  { leases, deliverWebhooks }: DutySurroundings,
  tuning: DutyTuning,
): readonly Duty[] {
  const duties = [
    promoteDuty(needs, tuning.promote),
    reclaimDuty(needs, leases, tuning.reclaim),
    attemptTimeoutDuty(needs, tuning["attempt-timeout"]),
    deadlineDuty(needs, tuning.deadline),
    timeToLiveDuty(needs, tuning["time-to-live"]),
    dueDocumentsDuty(needs, tuning["due-documents"]),
    webhooksDuty(needs, tuning.webhooks, deliverWebhooks),
    noHandlerDuty(needs, tuning["no-handler"]),
    retentionDuty(needs, tuning.retention),
    metricsDuty(needs, tuning.metrics),
    indexAuditDuty(needs, tuning["index-audit"]),
  ];
  return duties.filter((duty) => tuning[duty.name as DutyName].isOn);
}
