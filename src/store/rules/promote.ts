/** Rule R5: a scheduled job whose time has come is ready. Its place in the order was fixed when it was scheduled. */
import { stateCodes } from "../../model/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { advance } from "./advance.ts";
import type { Outcome } from "./advance.ts";

export function promote(row: JobRow): Outcome {
  const ready = advance(row, { state: stateCodes.ready });
  return { row: ready, event: "promoted", isKept: true, key: "stays" };
}
