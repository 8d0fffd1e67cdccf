/** Retention and the index audit (upkeep/prune.sql.ts, upkeep/audit.sql.ts). */
import { stateCodes } from "../../../model/job/job-state.ts";
import type { AuditAnswer, PruneAnswer, PruneRequest } from "../../../store/upkeep.ts";
import { callWrite, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Value } from "../connection/database.ts";
import { auditPhases } from "./audit.sql.ts";
import { packNullable, packText } from "../functions/packed-values.ts";

export async function prune(calls: Calls, request: PruneRequest): Promise<PruneAnswer> {
  const rows = await callWrite(calls, `prune_${request.what}_v1`, valuesOf(request));
  const [pruned, more, last = null] = onlyRow(rows);
  const isOver = more !== "t" && request.what !== "surplus";
  return { pruned: Number(pruned), more: more === "t", cursor: isOver ? null : last };
}

function valuesOf(request: PruneRequest): Value[] {
  switch (request.what) {
    case "history": {
      const { outcome, queue, exceptQueues, olderThanMs, max, cursor } = request;
      const except = exceptQueues.map(packText);
      return [stateCodes[outcome], packNullable(queue), except, olderThanMs, max, cursor ?? 0];
    }
    case "surplus": {
      const { outcome, queue, keep, max, cursor } = request;
      return [stateCodes[outcome], packText(queue), keep, max, cursor ?? 0];
    }
    case "kept":
    case "expired":
      return [request.max];
    case "feed":
      return [request.olderThanMs, request.max];
  }
}

/** The cursor is the phase, ":" and the last row that was read there. */
export async function auditIndexes(
  calls: Calls,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<AuditAnswer> {
  const [phase = auditPhases[0] as string] = cursor?.split(":", 1) ?? [];
  const after = cursor?.slice(phase.length + 1) ?? "";
  const [counts, rows, last = null] = onlyRow(await callWrite(calls, "audit_v1", [phase, after, max]));
  const repaired = Object.entries(JSON.parse(counts as string) as Record<string, number>);
  const checked = Number(rows);
  const next = auditPhases[auditPhases.indexOf(phase) + 1];
  return {
    checked,
    repaired: Object.fromEntries(repaired.filter(([, count]) => count > 0)),
    cursor: checked >= max && last !== null ? `${phase}:${last}` : next === undefined ? null : `${next}:`,
  };
}
