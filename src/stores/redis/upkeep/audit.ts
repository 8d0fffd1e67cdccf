/** The index audit (audit.lua.ts, audit-lanes.lua.ts), phase by phase. */
import type { Operation } from "../connection/call.ts";

/** The phases of the audit, what each repairs, and the cursor after it. */
const phases: Readonly<Record<string, { readonly kind: string; readonly next: string | null }>> = {
  jobs: { kind: "timer", next: "index:lease:0" },
  index: { kind: "timer", next: "ids:0" },
  ids: { kind: "id", next: "keys:0" },
  keys: { kind: "unique", next: "counts" },
  counts: { kind: "state-count", next: "lines:0" },
  lines: { kind: "lane", next: "lanes:0" },
  lanes: { kind: "lane", next: "uses" },
  uses: { kind: "lane", next: null },
};

export const auditIndexes: Operation<"auditIndexes"> = async ({ connection }, { cursor, max }) => {
  const [phase = "", ...from] = (cursor ?? "jobs:0").split(":");
  const { kind, next } = phases[phase] as (typeof phases)[string];
  type Answer = [checked: number, repaired: number, last: string, kept: number];
  const answer = (await connection.write(`mr1_audit_${phase}`, [...from, String(max)])) as Answer;
  const [checked, repaired, last, kept] = answer;
  return {
    checked,
    repaired: {
      ...(repaired === 0 ? {} : { [kind]: repaired }),
      ...(kept === 0 ? {} : { unreadable: kept }),
    },
    cursor: last === "" ? next : `${phase}:${last}`,
  };
};
