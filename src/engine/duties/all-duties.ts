/** The duties of a process, in the order of a job's life. A new duty is a file beside this one and a line here. */
import type { Engine } from "../engine.ts";
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
  engine: Engine,
  { leases, deliverWebhooks }: DutySurroundings,
  tuning: DutyTuning,
): readonly Duty[] {
  const duties = [
    promoteDuty(engine, tuning.promote),
    reclaimDuty(engine, leases, tuning.reclaim),
    attemptTimeoutDuty(engine, tuning["attempt-timeout"]),
    deadlineDuty(engine, tuning.deadline),
    timeToLiveDuty(engine, tuning["time-to-live"]),
    dueDocumentsDuty(engine, tuning["due-documents"]),
    webhooksDuty(engine, tuning.webhooks, deliverWebhooks),
    noHandlerDuty(engine, tuning["no-handler"]),
    retentionDuty(engine, tuning.retention),
    metricsDuty(engine, tuning.metrics),
    indexAuditDuty(engine, tuning["index-audit"]),
  ];
  return duties.filter((duty) => tuning[duty.name as DutyName].isOn);
}
