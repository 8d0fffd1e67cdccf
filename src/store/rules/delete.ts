/** Deletes a job, live or finished; only its event remains. Its key is freed, however it is held. */
import assert from "node:assert/strict";
import { hasMark } from "../../model/durable/durable-marks.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { advance } from "./advance.ts";
import type { Outcome } from "./advance.ts";

export function deleteJob(row: JobRow): Outcome {
  assert(row.state !== stateCodes.running, "a running job cannot be deleted");
  const defers = hasMark(row.durable, "hasChildren");
  return { row: advance(row, {}), event: "deleted", isKept: false, key: "freed", defers };
}
