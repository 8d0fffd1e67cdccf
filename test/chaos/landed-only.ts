/**
 * A bucket answers claims and renewals before they have landed (src/stores/bucket/log/who-waits.ts). Those of a writer
 * that was killed or fenced may never land. What is known to have not is taken out of the evidence, with the handlers
 * that ran on it: the store never gave these leases.
 */
import type { Evidence, Operation } from "../history/history.ts";

const waiting: readonly string[] = ["submit", "settleIfLeased", "recordIfLeased", "changeIf", "putGates"];

export function landedOnly(evidence: Evidence): Evidence {
  const landedUs = new Map<string, number>();
  for (const { actor, kind, seen, invokedUs } of evidence.operations)
    if (seen === "ok" && waiting.includes(kind))
      landedUs.set(actor, Math.max(landedUs.get(actor) ?? 0, invokedUs));
  const claimed = new Set(
    evidence.snapshot.feed.flatMap(({ at, events }) =>
      events.filter(({ kind }) => kind === "claimed").map(({ id }) => `${id} ${at}`),
    ),
  );
  /** What an acknowledged write of the same process follows has landed before it. */
  const isDoubtful = ({ actor, answeredUs }: Operation): boolean =>
    answeredUs !== null && answeredUs >= (landedUs.get(actor) ?? 0);
  const lost = new Set<string>();
  const operations = evidence.operations.map((each): Operation => {
    if (!isDoubtful(each) || each.seen !== "ok") return each;
    if (each.kind === "extendIfLeased") return { ...each, seen: "unknown", answer: null };
    if (each.kind !== "claim" || each.answer === null) return each;
    const { now } = each.answer;
    const jobs = each.answer.jobs.filter(({ id, fence }) => {
      const isLanded = claimed.has(`${id} ${now}`);
      if (!isLanded) lost.add(`${id}#${fence}`);
      return isLanded;
    });
    return { ...each, answer: { ...each.answer, jobs } };
  });
  const effects = evidence.effects.filter(({ id, fence }) => !lost.has(`${id}#${fence}`));
  return { ...evidence, operations: operations.map((each) => withoutLost(each, lost)), effects };
}

/** Writes under such a lease were refused or never heard of. */
function withoutLost(operation: Operation, lost: ReadonlySet<string>): Operation {
  if (operation.kind !== "settleIfLeased" || operation.seen === "ok") return operation;
  const request = operation.request.filter(({ id, fence }) => !lost.has(`${id}#${fence}`));
  return { ...operation, request };
}
