/**
 * When an approval is decided. The first answer of each source counts, further ones of the same source do not. The
 * first answer that declines decides; else the n-th that approves does.
 */
import type { UnreadSignal } from "./signal-buffer.ts";

export interface Answer extends UnreadSignal {
  readonly approves: boolean;
}

export type ApprovalDecision =
  | { readonly kind: "open"; readonly approvals: number }
  /** @property signals the numbers of the answers that count, in order */
  | { readonly kind: "decided"; readonly approved: boolean; readonly signals: readonly number[] };

/** @param answers in order of the journal. @param needed how many sources must approve. */
export function decideApproval(answers: readonly Answer[], needed: number): ApprovalDecision {
  const counted: Answer[] = [];
  const sources = new Set<string>();
  for (const answer of answers) {
    // An answer without a source counts as a source of its own: a signal that was sent by hand has a key and no name.
    const source = answer.source === null ? `#${answer.number}` : `=${answer.source}`;
    if (sources.has(source)) continue;
    sources.add(source);
    counted.push(answer);
    if (!answer.approves) return decided(counted, false);
    if (counted.length >= needed) return decided(counted, true);
  }
  return { kind: "open", approvals: counted.length };
}

function decided(counted: readonly Answer[], approved: boolean): ApprovalDecision {
  return { kind: "decided", approved, signals: counted.map(({ number }) => number) };
}
