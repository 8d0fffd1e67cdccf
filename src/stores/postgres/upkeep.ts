/** Retention and the index audit (sql/prune.ts, sql/audit.ts). */
import { stateCodes } from "../../model/job-state.ts";
import type { AuditAnswer, PruneAnswer, PruneRequest } from "../../store/operations.ts";
import { setAside } from "./aside.ts";
import { callText, callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import type { Row, Value } from "./database.ts";
import { packText } from "./text.ts";

export async function prune(calls: Calls, request: PruneRequest): Promise<PruneAnswer> {
  switch (request.what) {
    case "history": {
      const { outcome, queue, exceptQueues, olderThanMs, max, cursor } = request;
      const values = [
        stateCodes[outcome],
        queue === null ? null : packText(queue),
        exceptQueues.map(packText),
        olderThanMs,
        max,
        cursor ?? 0,
      ];
      const [removed, more, last] = onlyRow(await callWrite(calls, "prune_history_v1", values));
      const hasMore = more === "t";
      return { removed: Number(removed), more: hasMore, cursor: hasMore ? (last ?? null) : null };
    }
    case "kept":
      return answerOf(await callWrite(calls, "prune_kept_v1", [request.max]));
    case "expired":
      return answerOf(await callWrite(calls, "prune_expired_v1", [request.max]));
    case "feed":
      return answerOf(await callWrite(calls, "prune_feed_v1", [request.olderThanMs, request.max]));
  }
}

function answerOf(rows: readonly Row[]): PruneAnswer {
  const [removed, more] = onlyRow(rows);
  return { removed: Number(removed), more: more === "t", cursor: null };
}

/** cursor: null -> jobs:<seq> -> leases -> unique:<key> -> orphans -> tallies -> null */
export async function auditIndexes(
  calls: Calls,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<AuditAnswer> {
  if (cursor === null)
    return { checked: 0, repaired: repairs({ "set-aside": await setAside(calls, null) }), cursor: "jobs:0" };
  const at = cursor;
  const phase = at.split(":", 1)[0] as string;
  const rest = at.slice(phase.length + 1);
  const ask = async (name: string, values: readonly Value[]): Promise<Row> =>
    onlyRow(await calls.write(callText(calls.schema, name, values.length + 1), [calls.commit, ...values]));
  switch (phase) {
    case "jobs": {
      const [checked, repaired, last] = await ask("audit_timers_v1", [rest, max]);
      const isOver = Number(checked) < max || last === null;
      return {
        checked: Number(checked),
        repaired: repairs({ timer: repaired }),
        cursor: isOver ? "leases" : `jobs:${last}`,
      };
    }
    case "leases": {
      const [checked, repaired] = await ask("audit_leases_v1", []);
      return { checked: Number(checked), repaired: repairs({ timer: repaired }), cursor: "unique:" };
    }
    case "unique": {
      const [checked, repaired, last] = await ask("audit_keys_v1", [rest, max]);
      const isOver = Number(checked) < max || last === null;
      return {
        checked: Number(checked),
        repaired: repairs({ unique: repaired }),
        cursor: isOver ? "orphans" : `unique:${last}`,
      };
    }
    case "orphans": {
      const [tag, trail, payload] = await ask("audit_orphans_v1", []);
      return { checked: 0, repaired: repairs({ tag, trail, payload }), cursor: "tallies" };
    }
    default: {
      const [tally] = await ask("audit_tallies_v1", []);
      return { checked: 0, repaired: repairs({ tally }), cursor: null };
    }
  }
}

function repairs(
  counts: Readonly<Record<string, string | number | null | undefined>>,
): Record<string, number> {
  const found = Object.entries(counts).map(([kind, count]) => [kind, Number(count)] as const);
  return Object.fromEntries(found.filter(([, count]) => count > 0));
}
