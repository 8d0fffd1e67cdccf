/**
 * An update that keeps the state, of a live or finished job: an edit of its payload or priority, a requested cancel, or
 * its end goes along more of its edges (rule R4).
 */
import type { Update } from "../../model/job/change.ts";
import type { JobRow } from "../job-fields.ts";
import { advance } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { edit } from "./edit.ts";

export function update(row: JobRow, next: Update): Outcome {
  const { cancelAsked, rankBase, rankSlope } = next;
  // Else a signal would make every guard by rev fail.
  if (next.event === "signalled") return { row, event: next.event, isKept: true, key: "stays" };
  const isRanked = rankBase !== undefined || rankSlope !== undefined;
  const updated = advance(row, {
    ...edit(next.edit),
    ...(cancelAsked === undefined ? {} : { cancelAsked: cancelAsked ? 1 : 0 }),
    ...(isRanked ? { rank: (rankBase ?? 0) + (rankSlope ?? 1) * row.dueAt } : {}),
  });
  return { row: updated, event: next.event, isKept: true, key: "stays" };
}
