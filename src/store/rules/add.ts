/**
 * Rule R9: adds to a counter. The number is the body of a document, so it is read by everything that reads documents,
 * expires as they do, and lies where its id says.
 */
import type { AddAnswer, PutDocAnswer } from "../operations.ts";
import type { Add, Doc, DocAdd, DocPut, DocWrite } from "../records.ts";
import { expiryAt, isPresent } from "./put-doc.ts";

/** The form in which counters are written, up to its size. Everything else is uncountable. */
export const counterPattern = "^(0|-?[1-9][0-9]{0,15})$";

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
  const { by, ceiling = null, leaves } = add;
  const before = kept !== null && isPresent(kept, now) ? readNumber(kept.body) : 0;
  if (before === null || !Number.isSafeInteger(by)) return { kind: "uncountable" };
  const number = before + by;
  if (by > 0 && ceiling !== null && number > ceiling) return { kind: "above", number: before };
  if (!Number.isSafeInteger(number)) return { kind: "uncountable" };
  const version = (kept === null ? floor() : kept.version) + 1;
  return {
    kind: "written",
    doc: { kind, id, version, body: String(number), dueAt: null, expiresAt: expiryAt(expiresInMs, now) },
    number,
    left: leaves !== undefined && hasPassed(add, number) ? leftBy(leaves) : null,
  };
}

/** Whether an add that made this number of its counter passed a mark upwards. */
function hasPassed({ by, marks = [] }: Add, number: number): boolean {
  return marks.some((mark) => number - by < mark && mark <= number);
}

/** The put of the deferred work that an add leaves. */
export function leftBy({ kind, id }: Required<Add>["leaves"]): DocWrite {
  return { kind, id, body: "", guard: "any", due: { inMs: 0 } };
}

/** Whether a put that was answered so has left deferred work, which is due at once. */
export function hasLeft({ add }: DocPut, answer: PutDocAnswer | undefined): boolean {
  if (add?.leaves === undefined || answer === undefined) return false;
  return "version" in answer && "number" in answer && hasPassed(add, answer.number);
}

/** Why a unit is refused whose put was answered so; null if it is not. */
export function refusalOfPut({ kind }: PutDocAnswer): "doc-changed" | "above-ceiling" | "uncountable" | null {
  if (kind === "ok") return null;
  return kind === "changed" ? "doc-changed" : kind === "above" ? "above-ceiling" : kind;
}

const isNumber = new RegExp(counterPattern);

function readNumber(body: string): number | null {
  const number = Number(body);
  return isNumber.test(body) && Number.isSafeInteger(number) ? number : null;
}
