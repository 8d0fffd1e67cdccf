/** What every client of object storage shares beside the contract itself, which is in store/objects.ts. */
import { ObjectsError } from "../../../store/objects.ts";

export { ObjectsError };
export type { NamePage, Objects, ObjectsErrorKind, ObjectsOutcome } from "../../../store/objects.ts";

const nameLengthMax = 512;
/** A segment that begins with a dot is a path or a temporary file on a disk. */
const segmentPattern = /^[\x20-\x2d\x30-\x7e][\x20-\x2e\x30-\x7e]*$/;

/**
 * A name is printable ASCII without a backslash, in segments that "/" separates. A wrong one is a wrong program, so it
 * is not an ObjectsError.
 */
export function checkName(name: string): string {
  const isGood =
    name.length <= nameLengthMax &&
    !name.includes("\\") &&
    name.split("/").every((segment) => segmentPattern.test(segment));
  if (isGood) return name;
  throw new TypeError(`${JSON.stringify(name.slice(0, 80))} cannot be the name of an object.`);
}

/** A storage that refuses a put for its condition, because it does not know it. */
export class UnknownCondition extends ObjectsError {}

export function closedError(): ObjectsError {
  return new ObjectsError("refused", "The object storage was closed; nothing of this call happened.");
}
