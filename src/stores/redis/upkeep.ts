/** Retention and the index audit (lua/prune.ts, lua/audit.ts). */
import { stateCodes } from "../../model/job-state.ts";
import type { AuditAnswer, PruneAnswer, PruneRequest } from "../../store/operations.ts";
import type { Calls } from "./call.ts";
import { packText } from "./text.ts";

export async function prune({ connection }: Calls, request: PruneRequest): Promise<PruneAnswer> {
  const max = String(request.max);
  const piece = async (name: string, args: readonly string[]): Promise<PruneAnswer> => {
    const [removed, more] = (await connection.write(name, args)) as [number, number];
    return { removed, more: more === 1, cursor: null };
  };
  switch (request.what) {
    case "history": {
      const { outcome, queue, exceptQueues, olderThanMs, cursor } = request;
      const [minute = "", left = ""] = cursor?.split(":") ?? [];
      const [removed, nextMinute, nextLeft] = (await connection.write("mr1_prune_history", [
        String(stateCodes[outcome]),
        ...(queue === null ? ["1", ""] : ["0", packText(queue)]),
        ...[String(olderThanMs), max, minute, left],
        ...exceptQueues.map(packText),
      ])) as [number, string, string];
      const isOver = nextMinute === "";
      return { removed, more: !isOver, cursor: isOver ? null : `${nextMinute}:${nextLeft}` };
    }
    case "kept":
      return piece("mr1_prune_kept", [max]);
    case "results":
      return piece("mr1_prune_results", [max]);
    case "expired":
      return piece("mr1_prune_expired", [max]);
    case "feed":
      return piece("mr1_prune_feed", [String(request.olderThanMs), max]);
  }
}

/** cursor: jobs:<seq> -> index:<index>:<rank> -> ids:<cursor> -> keys:<cursor> -> tally -> null */
export async function auditIndexes(
  { connection }: Calls,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<AuditAnswer> {
  const [phase, ...rest] = (cursor ?? "jobs:0").split(":");
  const ask = async (
    name: string,
    args: readonly string[],
    kind: string,
    own: string,
    next: string | null,
  ) => {
    type Answer = [checked: number, repaired: number, last: string, asides: number];
    const [checked, repaired, last, asides] = (await connection.write(name, args)) as Answer;
    return {
      checked,
      repaired: {
        ...(repaired === 0 ? {} : { [kind]: repaired }),
        ...(asides === 0 ? {} : { "set-aside": asides }),
      },
      cursor: last === "" ? next : `${own}:${last}`,
    };
  };
  switch (phase) {
    case "jobs":
      return ask("mr1_audit_jobs", [rest[0] as string, String(max)], "timer", phase, "index:lease:0");
    case "index":
      return ask("mr1_audit_index", [...rest, String(max)], "timer", phase, "ids:0");
    case "ids":
      return ask("mr1_audit_ids", [rest[0] as string, String(max)], "id", phase, "keys:0");
    case "keys":
      return ask("mr1_audit_keys", [rest[0] as string, String(max)], "unique", phase, "tally");
    default:
      return ask("mr1_audit_tally", [], "tally", "tally", null);
  }
}
