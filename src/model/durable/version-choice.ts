/**
 * Which version of a handler continues a run. A round keeps the version that it began with: its journal says so by an
 * entry `version`, which is appended with the round's first own entry. A round without such an entry has recorded
 * nothing yet and begins with the current version.
 */
import type { JournalEntry } from "./journal-entry.ts";

export type VersionChoice =
  | { readonly kind: "run"; readonly version: number; readonly isNew: boolean }
  /** This worker does not have the version: the run is handed back, and the worker does not claim it again. */
  | { readonly kind: "missing"; readonly version: number };

export interface OfferedVersions {
  readonly current: number;
  readonly older: readonly number[];
}

export function chooseVersion(entries: readonly JournalEntry[], offered: OfferedVersions): VersionChoice {
  const recorded = recordedVersion(entries);
  if (recorded === null) return { kind: "run", version: offered.current, isNew: true };
  const isKnown = recorded === offered.current || offered.older.includes(recorded);
  return isKnown ? { kind: "run", version: recorded, isNew: false } : { kind: "missing", version: recorded };
}

function recordedVersion(entries: readonly JournalEntry[]): number | null {
  for (const { body } of entries) if (body.kind === "version") return body.version;
  return null;
}
