/**
 * The document after a put. An expired document counts as absent for every guard. Its version still grows, so that the
 * former leader can never be taken for its successor. For the same reason a new document begins above the floor: the
 * highest version that any document had when it was deleted or pruned.
 */
import type { Doc, DocWrite } from "../records.ts";
import { dueAtOf } from "./timer.ts";

/** A stored document, expired or not. */
export type KeptDoc = Pick<Doc, "version" | "expiresAt">;

export type PutOutcome =
  /** The guard does not hold. `version` is 0 for an absent document. */
  | { readonly kind: "changed"; readonly version: number }
  | { readonly kind: "deleted" }
  | { readonly kind: "written"; readonly doc: Doc };

/** `floor` is read only for a new document. */
export function putDoc(kept: KeptDoc | null, put: DocWrite, floor: () => number, now: number): PutOutcome {
  const current = kept !== null && isPresent(kept, now) ? kept.version : 0;
  if (!isHeld(put, current)) return { kind: "changed", version: current };
  const { kind, id, body } = put;
  if (body === null) return { kind: "deleted" };
  const version = (kept === null ? floor() : kept.version) + 1;
  const doc = {
    kind,
    id,
    version,
    body,
    dueAt: put.due ? dueAtOf(put.due, now) : null,
    expiresAt: expiryAt(put.expiresInMs, now),
  };
  return { kind: "written", doc };
}

function isHeld({ guard }: DocWrite, current: number): boolean {
  if (guard === "any") return true;
  return guard === "absent" ? current === 0 : current === guard.version;
}

export function isPresent({ expiresAt }: Pick<KeptDoc, "expiresAt">, now: number): boolean {
  return expiresAt === null || expiresAt > now;
}

export function expiryAt(inMs: number | null | undefined, now: number): number | null {
  return inMs === null || inMs === undefined ? null : now + inMs;
}
