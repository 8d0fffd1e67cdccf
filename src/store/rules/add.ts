/**
 * Rule R9: adds to a counter. The number is the body of a document, so it is read by everything that reads documents,
 * expires as they do, and lies where its id says.
 */
import type { AddAnswer, PutDocAnswer } from "../operations.ts";
import type { Doc, DocAdd, DocWrite } from "../records.ts";
import { expiryAt, isPresent } from "./put-doc.ts";

/** A stored counter, expired or not. */
export type KeptCounter = Pick<Doc, "version" | "expiresAt" | "body">;

export type AddOutcome =
  | Exclude<AddAnswer, { kind: "ok" }>
  | {
      readonly kind: "written";
      readonly doc: Doc;
      readonly number: number;
      /** What is to be put as well: a mark was passed. */
      readonly left: DocWrite | null;
    };

/** `floor` is read only for a new document. */
export function addTo(
  kept: KeptCounter | null,
  { kind, id, add, expiresInMs }: DocAdd,
  floor: () => number,
  now: number,
): AddOutcome {
  const { by, ceiling = null, marks = [], leaves } = add;
  const before = kept !== null && isPresent(kept, now) ? readNumber(kept.body) : 0;
  if (before === null) return { kind: "uncountable" };
  const number = before + by;
  if (by > 0 && ceiling !== null && number > ceiling) return { kind: "above", number: before };
  if (!Number.isSafeInteger(number)) return { kind: "uncountable" };
  const version = (kept === null ? floor() : kept.version) + 1;
  const hasPassed = marks.some((mark) => before < mark && mark <= number);
  return {
    kind: "written",
    doc: { kind, id, version, body: String(number), dueAt: null, expiresAt: expiryAt(expiresInMs, now) },
    number,
    left: leaves !== undefined && hasPassed ? { ...leaves, body: "", guard: "any", due: { inMs: 0 } } : null,
  };
}

/** Why a unit is refused whose put was answered so; null if it is not. */
export function refusalOfPut({ kind }: PutDocAnswer): "doc-changed" | "above-ceiling" | "uncountable" | null {
  if (kind === "ok") return null;
  return kind === "changed" ? "doc-changed" : kind === "above" ? "above-ceiling" : kind;
}

/** Null for a body that is no number in the one form in which a counter is written. */
function readNumber(body: string): number | null {
  const number = Number(body);
  return Number.isSafeInteger(number) && String(number) === body ? number : null;
}
