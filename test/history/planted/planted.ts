/** What planted violations are made of: the types, the specs they share, and ways to bend a history. */
import type { Evidence } from "../history.ts";
import type { Invariant } from "../invariants.ts";
import type { Scribe } from "../scribe.ts";

/** A bend of a true history and the number of the invariant that must be found broken. */
export type Planted = readonly [invariant: Invariant, what: string, write: Write, bend?: Bend];
export type Write = (scribe: Scribe) => void;
export type Bend = (evidence: Evidence) => Evidence;

export const key = (
  hold: "end" | "started" | number = "end",
): { unique: { key: string; hold: typeof hold; onHeld: "keep" } } => ({
  unique: { key: "k", hold, onHeld: "keep" },
});
export const twoAttempts = {
  policy: JSON.stringify({ attempts: 2, backoff: { kind: "fixed", delayMs: 0, jitter: "none" } }),
};

export const withSnapshot =
  (change: (snapshot: Evidence["snapshot"]) => Partial<Evidence["snapshot"]>): Bend =>
  (evidence) => ({ ...evidence, snapshot: { ...evidence.snapshot, ...change(evidence.snapshot) } });

export const enqueue = (given: {
  seen: "ok" | "failed" | "unknown";
  inputs: string[];
  got: string[] | null;
}) => ({ kind: "enqueue", actor: "p1", invokedUs: 0, answeredUs: 1, order: null, ...given }) as const;

/** Forgets the last event of a record. */
export function dropEvent(scribe: Scribe, index: number): void {
  const record = scribe.feed[index] as { events: Evidence["snapshot"]["feed"][number]["events"] };
  record.events = record.events.slice(0, -1);
}

export function bendEvent(scribe: Scribe, index: number, change: object): void {
  const record = scribe.feed[index] as { events: Evidence["snapshot"]["feed"][number]["events"] };
  record.events = record.events.map((event) => ({ ...event, ...change }));
}
