/**
 * The process heartbeat: documents are put and read in one step, with the routes that have ready jobs and the clock.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import type { HeartbeatAnswer, HeartbeatRequest } from "../../../store/operations.ts";
import { putDocs, readDocs } from "./documents.ts";
import { nextClockInMs } from "../upkeep/due.ts";
import type { Step } from "../connection/transaction.ts";
import { sql } from "../../../store/sql.ts";

/** No input. Answer: the routes that have ready jobs. */
const readyRoutes = sql`
  SELECT route FROM millrace_state_count WHERE state = ${stateCodes.ready} AND count > 0 ORDER BY route`;

export function heartbeat(step: Step, { puts, read }: HeartbeatRequest): HeartbeatAnswer {
  const { statements, now } = step;
  const answers = putDocs(step, puts);
  return {
    puts: answers,
    read: readDocs(step, read),
    ready: (statements(readyRoutes).all() as [number][]).map(([route]) => route),
    nextDueInMs: nextClockInMs(statements, now),
    now,
  };
}
