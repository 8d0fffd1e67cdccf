/**
 * A job that stays in its state: its payload or priority is edited, its cancel is asked for, or its end goes along more
 * of its edges (which is rule R4's). Live or finished.
 */
import type { Mark } from "../../model/job/change.ts";
import type { JobRow } from "../job-fields.ts";
import { advance } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { edit } from "./edit.ts";

export function mark(row: JobRow, next: Mark): Outcome {
  const { cancelAsked, rankBase, rankSlope } = next;
  const isRanked = rankBase !== undefined || rankSlope !== undefined;
  const marked = advance(row, {
    ...edit(next.edit),
    ...(cancelAsked === undefined ? {} : { cancelAsked: cancelAsked ? 1 : 0 }),
    ...(isRanked ? { rank: (rankBase ?? 0) + (rankSlope ?? 1) * row.dueAt } : {}),
  });
  return { row: marked, event: next.event, isKept: true, key: "stays" };
}
