/**
 * The document with which a process shows operators the items that its duties quarantine: one per process, written when
 * the list changes. It expires by itself once the list is empty or the process is gone.
 */
import type { DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { allDocs } from "../docs/all-docs.ts";
import { shownAfterMs } from "./quarantine.ts";

const quarantineKind = "quarantine";
const casesShownMax = 100;

export interface QuarantinedItem {
  readonly duty: string;
  /** A job's id, or another item of the duty ("completed" for retention); null for the duty itself. */
  readonly item: string | null;
  /** The item's partition; left out if it is unknown, and on a store of one. */
  readonly partition?: number;
  readonly failures: number;
  readonly error: string;
  /** When it is tried again, in epoch milliseconds by the clock of the process. */
  readonly until: number;
  /** The process that quarantines it. */
  readonly process: string;
}

export function quarantinePut(id: string, items: readonly QuarantinedItem[], now: number): DocPut {
  const shown = items.slice(0, casesShownMax);
  const last = Math.max(now, ...shown.map(({ until }) => until));
  return {
    kind: quarantineKind,
    id,
    body: shown.length === 0 ? null : JSON.stringify(shown),
    guard: "any",
    expiresInMs: last - now + shownAfterMs,
  };
}

/** The quarantined items of all processes, ordered by duty. */
export async function readQuarantined(store: Pick<Store, "readDocs">): Promise<readonly QuarantinedItem[]> {
  const items: QuarantinedItem[] = [];
  for await (const { body } of allDocs(store, { kind: quarantineKind, passesOver: true }))
    items.push(...readItems(body));
  return items.toSorted((left, right) => (left.duty < right.duty ? -1 : left.duty > right.duty ? 1 : 0));
}

/** A document that cannot be read hides only itself. It expires, and its process writes the same items again. */
function readItems(body: string): readonly QuarantinedItem[] {
  try {
    const items: unknown = JSON.parse(body);
    return Array.isArray(items) ? (items as readonly QuarantinedItem[]) : [];
  } catch {
    return [];
  }
}
