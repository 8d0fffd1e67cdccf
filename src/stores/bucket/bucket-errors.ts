/** What a bucket reports, as Millrace's own errors: each says whether the call happened and what to do about it. */
import { MillraceError } from "../../model/error.ts";
import type { ErrorOutcome } from "../../model/error.ts";
import { ObjectsError } from "./objects/objects.ts";

const codes = {
  denied: "store-denied",
  "no-bucket": "store-missing",
  busy: "store-unavailable",
  unreachable: "store-unavailable",
  refused: "store-unavailable",
} as const satisfies Record<ObjectsError["kind"], MillraceError["code"]>;

const advice = {
  denied: "Check the credentials and what they may do.",
  "no-bucket": "Make the bucket first, or correct the URL.",
  busy: "Try again later.",
  unreachable: "Check the network and the endpoint.",
  refused: "Check the bucket's settings.",
} as const satisfies Record<ObjectsError["kind"], string>;

/** An error of our own, or of a bug, is passed on as it is. */
export function bucketError(error: unknown, outcome: ErrorOutcome): unknown {
  return error instanceof ObjectsError ? objectsError(error, outcome) : error;
}

export function objectsError(error: ObjectsError, outcome: ErrorOutcome): MillraceError {
  if (outcome === "unknown") {
    const sentence = `The bucket did not confirm the call (${error.message}), so it may or may not have happened. Repeat it with the same ids.`;
    return new MillraceError("outcome-unknown", sentence, { cause: error, outcome });
  }
  const sentence = `The bucket cannot be used (${error.message}); nothing of this call happened. ${advice[error.kind]}`;
  return new MillraceError(codes[error.kind], sentence, { cause: error });
}
