/** Retention and the index audit (sql/prune.ts, sql/audit.ts). */
import { stateCodes } from "../../model/job-state.ts";
import type { AuditAnswer, PruneAnswer, PruneRequest } from "../../store/operations.ts";
import { setAside } from "./aside.ts";
import { callText, callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import type { Row } from "./database.ts";
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
    case "results":
      return answerOf(await callWrite(calls, "prune_results_v1", [request.max]));
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

/** What each phase of an audit asks for, what it answers of repairs, and where it goes on. */
interface Phase {
  readonly name: string;
  /** It looks at `max` rows behind the last one, and answers how many these were and which was the last. */
  readonly isPaged?: true;
  readonly repairs: readonly string[];
  readonly next: string | null;
}
const phases: Readonly<Record<string, Phase>> = {
  jobs: { name: "audit_timers_v1", isPaged: true, repairs: ["timer"], next: "leases" },
  leases: { name: "audit_leases_v1", repairs: ["timer"], next: "unique:" },
  unique: { name: "audit_keys_v1", isPaged: true, repairs: ["unique"], next: "orphans" },
  orphans: { name: "audit_orphans_v1", repairs: ["tag", "trail", "payload"], next: "tallies" },
  tallies: { name: "audit_tallies_v1", repairs: ["tally"], next: null },
};

/** cursor: null (records to set aside) -> jobs:<seq> -> leases -> unique:<key> -> orphans -> tallies -> null */
export async function auditIndexes(
  calls: Calls,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<AuditAnswer> {
  if (cursor === null)
    return { checked: 0, repaired: counted(["set-aside"], [await setAside(calls, null)]), cursor: "jobs:0" };
  const [at = ""] = cursor.split(":", 1);
  const { name, isPaged = false, repairs, next } = phases[at] as Phase;
  const values = [calls.commit, ...(isPaged ? [cursor.slice(at.length + 1), max] : [])];
  const row = onlyRow(await calls.write(callText(calls.schema, name, values.length), values));
  const repaired = counted(repairs, row.map(Number));
  if (!isPaged) return { checked: 0, repaired, cursor: next };
  const [, checked, last] = row;
  const isOver = Number(checked) < max || last === null;
  return { checked: Number(checked), repaired, cursor: isOver ? next : `${at}:${last}` };
}

/** The counts by their kinds, without those of nothing. */
function counted(kinds: readonly string[], counts: readonly number[]): Record<string, number> {
  const found = kinds.map((kind, index) => [kind, counts[index] as number] as const);
  return Object.fromEntries(found.filter(([, count]) => count > 0));
}
