/** Who may take what: invariant 56. All workers of a process offer the same. */
import type { Ledger, Violation } from "../ledger.ts";

export function* checkCapabilities(ledger: Ledger): Generator<Violation> {
  const offered = new Map<string, ReadonlySet<string>>();
  for (const operation of ledger.evidence.operations)
    if (operation.kind === "work") offered.set(operation.actor, new Set(operation.capabilities));
  for (const { at, events } of ledger.evidence.snapshot.feed) {
    for (const { kind, id, rev, route } of events) {
      const requires = (kind === "claimed" ? ledger.routes.get(route)?.requires : undefined) ?? [];
      const actor = requires.length === 0 ? undefined : ledger.leaseOf(id, { rev, at })?.call.actor;
      if (actor === undefined) continue;
      const lacking = requires.filter((cap) => offered.get(actor)?.has(cap) !== true);
      if (lacking.length > 0)
        yield {
          invariant: 56,
          id,
          message: `${id} was claimed by ${actor}, which lacks ${lacking.join(", ")}`,
        };
    }
  }
}
