/** The commands, in the order of the help page. A new command is a file in commands/ and a line here. */
import type { Command } from "./command.ts";
import { cancel } from "./commands/cancel.ts";
import { counts } from "./commands/counts.ts";
import { deleteJob } from "./commands/delete.ts";
import { demo } from "./commands/demo.ts";
import { doctor } from "./commands/doctor.ts";
import { duties } from "./commands/duties.ts";
import { edit } from "./commands/edit.ts";
import { enqueue } from "./commands/enqueue.ts";
import { explain } from "./commands/explain.ts";
import { flows } from "./commands/flows.ts";
import { helpCommand } from "./commands/help.ts";
import { limits } from "./commands/limits.ts";
import { list } from "./commands/list.ts";
import { logs } from "./commands/logs.ts";
import { metrics } from "./commands/metrics.ts";
import { migrate } from "./commands/migrate.ts";
import { purge } from "./commands/purge.ts";
import { queues } from "./commands/queues.ts";
import { reschedule } from "./commands/reschedule.ts";
import { restore } from "./commands/restore.ts";
import { retry } from "./commands/retry.ts";
import { revoke } from "./commands/revoke.ts";
import { runNow } from "./commands/run-now.ts";
import { schedules } from "./commands/schedules.ts";
import { show } from "./commands/show.ts";
import { topics } from "./commands/topics.ts";
import { tail } from "./commands/tail.ts";
import { top } from "./commands/top.ts";
import { webhooks } from "./commands/webhooks.ts";
import { version } from "./commands/version.ts";
import { work } from "./commands/work.ts";
import { workers } from "./commands/workers.ts";

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
  top,
  metrics,
  workers,
  queues,
  limits,
  schedules,
  topics,
  webhooks,
  duties,
  doctor,
  restore,
  migrate,
  version,
  helpCommand(() => allCommands),
];
