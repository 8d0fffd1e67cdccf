/**
 * What the end of a run means once steps with an undo were recorded. A bad end does not end such a run: it appends
 * `ending` once, and the run undoes the recorded steps in reverse order of their records, each undo a record of its
 * own. Then the run ends as `ending` says.
 *
 *  good end (completed)                          ends at once; nothing is undone
 *  bad end, no undo recorded                     ends at once
 *  bad end, an undo recorded, no `ending` yet    append `ending`, run the undos
 *  bad end, `ending` is there                    the first ending stays; the undos go on
 *  diverged                                      ends at once as failed: nobody knows which undo belongs to what
 */
import type { EntryBody, JournalEntry } from "./journal-entry.ts";

export type Ending = Omit<Extract<EntryBody, { readonly kind: "ending" }>, "kind">;

export type EndDecision = "end" | "append-ending" | "undo";

export function decideEnd(
  end: { readonly state: "completed" | Ending["state"]; readonly reason: string | null },
  journal: { readonly hasUndo: boolean; readonly ending: Ending | null },
): EndDecision {
  if (end.state === "completed" || end.reason === "diverged" || !journal.hasUndo) return "end";
  return journal.ending === null ? "append-ending" : "undo";
}

/** How a run ends once its undos are over. */
export function endAfterUndos(ending: Ending, hasGivenUp: boolean): Ending {
  return hasGivenUp ? { state: "failed", reason: "undo-failed" } : ending;
}

export function endingOf(entries: readonly JournalEntry[]): Ending | null {
  for (const { body } of entries)
    if (body.kind === "ending") return { state: body.state, reason: body.reason };
  return null;
}

export interface PlannedUndo {
  readonly call: string;
  readonly value: string | null;
  /** How often it has failed. */
  readonly attempt: number;
  /** No failed attempt may be followed by another before then; null for at once. */
  readonly notBefore: number | null;
}

export interface UndoPlan {
  /** In the order in which they are to run. Undos that are recorded as done, or given up, are left out. */
  readonly undos: readonly PlannedUndo[];
  /** An undo was given up. */
  readonly hasGivenUp: boolean;
}

/** From the entries of a round; what was recorded after the ending is not undone, because nothing is. */
export function planUndos(entries: readonly JournalEntry[]): UndoPlan {
  const done = new Set<string>();
  const failed = new Map<string, { attempt: number; notBefore: number | null }>();
  let hasGivenUp = false;
  for (const { body, at } of entries) {
    if (body.kind === "undone") done.add(body.call);
    if (body.kind !== "stuck") continue;
    const { call, attempt, retryInMs } = body;
    if (retryInMs === null) {
      done.add(call);
      hasGivenUp = true;
    } else failed.set(call, { attempt, notBefore: at + retryInMs });
  }
  const undos = entries.flatMap(({ body }): PlannedUndo[] => {
    if (body.kind !== "result" || body.hasUndo !== true || done.has(body.call)) return [];
    const { attempt = 0, notBefore = null } = failed.get(body.call) ?? {};
    return [{ call: body.call, value: body.value, attempt, notBefore }];
  });
  return { undos: undos.toReversed(), hasGivenUp };
}
