/**
 * The commands, in the order of the help page. A new command is a file in the folder of its subject and a line here.
 */
import type { Command } from "./command.ts";
import { approvals } from "./durable/approvals.ts";
import { bench } from "./store/bench.ts";
import { cancel } from "./jobs/cancel.ts";
import { check } from "./durable/check.ts";
import { counts } from "./jobs/counts.ts";
import { deleteJob } from "./jobs/delete.ts";
import { demo } from "./demo/demo.ts";
import { doctor } from "./doctor/doctor.ts";
import { duties } from "./fleet/duties.ts";
import { edit } from "./jobs/edit.ts";
import { enqueue } from "./jobs/enqueue.ts";
import { explain } from "./jobs/explain.ts";
import { flows } from "./flows/flows.ts";
import { helpCommand } from "./help.ts";
import { budgets } from "./settings/budgets.ts";
import { limits } from "./settings/limits.ts";
import { list } from "./jobs/list.ts";
import { logs } from "./jobs/logs.ts";
import { metrics } from "./fleet/metrics.ts";
import { migrate } from "./store/migrate.ts";
import { purge } from "./jobs/purge.ts";
import { queues } from "./settings/queues.ts";
import { reschedule } from "./jobs/reschedule.ts";
import { restore } from "./store/restore.ts";
import { retry } from "./jobs/retry.ts";
import { revoke } from "./jobs/revoke.ts";
import { runNow } from "./jobs/run-now.ts";
import { schedules } from "./settings/schedules.ts";
import { signal } from "./durable/signal.ts";
import { show } from "./jobs/show.ts";
import { topics } from "./settings/topics.ts";
import { tail } from "./fleet/tail.ts";
import { top } from "./fleet/top.ts";
import { webhooks } from "./settings/webhooks.ts";
import { version } from "./version.ts";
import { work } from "./fleet/work.ts";
import { workers } from "./fleet/workers.ts";

export const allCommands: readonly Command[] = [
  demo,
  work,
  enqueue,
  list,
  counts,
  flows,
  show,
  logs,
  tail,
  explain,
  retry,
  cancel,
  runNow,
  reschedule,
  edit,
  revoke,
  deleteJob,
  purge,
  signal,
  approvals,
  check,
  top,
  metrics,
  workers,
  queues,
  limits,
  budgets,
  schedules,
  topics,
  webhooks,
  duties,
  doctor,
  bench,
  restore,
  migrate,
  version,
  helpCommand(() => allCommands),
];
