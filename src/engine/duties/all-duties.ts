/** The duties of a process that are on. CONTRIBUTING, "Add a duty", names all places of a new one. */
import type { Services } from "../services.ts";
import type { HeldLeases } from "../attempts/held-leases.ts";
import { attemptTimeoutDuty } from "./attempt-timeout-duty.ts";
import type { Duty } from "./duty.ts";
import { dutyNames } from "./duty-tuning.ts";
import type { DutyName, DutyTuning } from "./duty-tuning.ts";
import { budgetResetDuty } from "./budget-reset-duty.ts";
import { deadlineDuty, timeToLiveDuty } from "./expiry-duties.ts";
import { indexAuditDuty } from "./index-audit-duty.ts";
import { metricsDuty } from "./metrics-duty.ts";
import { noHandlerDuty } from "./no-handler-duty.ts";
import { promoteDuty } from "./promote-duty.ts";
import { reclaimDuty } from "./reclaim-duty.ts";
import { retentionDuty } from "./retention-duty.ts";
import { suspensionTimeoutDuty } from "./suspension-timeout-duty.ts";
import { dueDocumentsDuty } from "./due-documents-duty.ts";
import { webhooksDuty } from "./webhooks-duty.ts";

/** The parts of the process that duties need. */
export interface DutySurroundings {
  readonly leases: HeldLeases;
  /** Called with whether this process delivers webhooks. */
  readonly deliverWebhooks: (isOurs: boolean) => void;
}

export function allDuties(
  services: Services,
  { leases, deliverWebhooks }: DutySurroundings,
  tuning: DutyTuning,
): readonly Duty[] {
  const duties: Readonly<Record<DutyName, Duty>> = {
    promote: promoteDuty(services, tuning.promote),
    reclaim: reclaimDuty(services, leases, tuning.reclaim),
    "attempt-timeout": attemptTimeoutDuty(services, tuning["attempt-timeout"]),
    deadline: deadlineDuty(services, tuning.deadline),
    "time-to-live": timeToLiveDuty(services, tuning["time-to-live"]),
    "suspension-timeout": suspensionTimeoutDuty(services, tuning["suspension-timeout"]),
    "due-documents": dueDocumentsDuty(services, tuning["due-documents"]),
    webhooks: webhooksDuty(services, tuning.webhooks, deliverWebhooks),
    "no-handler": noHandlerDuty(services, tuning["no-handler"]),
    "budget-reset": budgetResetDuty(services, tuning["budget-reset"]),
    retention: retentionDuty(services, tuning.retention),
    metrics: metricsDuty(services, tuning.metrics),
    "index-audit": indexAuditDuty(services, tuning["index-audit"]),
  };
  return dutyNames.filter((name) => tuning[name].isOn).map((name) => duties[name]);
}
