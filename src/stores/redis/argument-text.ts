/**
 * Arguments of several fields, and small records beside those of jobs: the tables of their names, by which both sides
 * read and write them.
 */
import { fieldEnd } from "../../store/packed-text.ts";

/** A next that leaves a field as it is; no packed text holds this character. */
export const unchanged = "\x02";
export const editFields = ["input", "policy", "meta"] as const;

/** Fields joined in one text. */
export const argumentFields = {
  /** What jobs that were submitted alike share. due and deadline: +ms from now, or =instant. */
  shape: [
    ...(["route", "due", "rankBase", "rankSlope", "deadline", "ttlMs", "onHeld", "hasTags"] as const),
    // The content of the route has fields of its own, so it is the last.
    "content",
  ],
  /** states: their codes in a row. rang: a clock by name. */
  guard: ["states", "rev", "fence", "rang"],
  /** What becomes of a job, by kind. */
  schedule: [
    ...(["kind", "event", "due", "rankBase", "rankSlope", "countsAttempt", "ttlMs", "attempt"] as const),
    ...(["clearsPassedDeadline", ...editFields] as const),
  ],
  handBack: ["kind", "event", "countsAttempt"],
  mark: ["kind", "event", "cancelAsked", "rankBase", "rankSlope", ...editFields],
  remove: ["kind", "event"],
  finish: ["kind", "event", "to", "keepMs", "keepResultMs", "reason", "result"],
  /** The record of a unique key, and that of a document. */
  holder: ["handle", "hold", "heldUntil", "id"],
  doc: ["version", "dueAt", "expiresAt", "body"],
} as const;

export type ArgumentName = keyof typeof argumentFields;
export type ArgumentValues<Name extends ArgumentName> = Readonly<
  Record<(typeof argumentFields)[Name][number], string | number>
>;

export function argumentText<Name extends ArgumentName>(name: Name, values: ArgumentValues<Name>): string {
  const fields: readonly string[] = argumentFields[name];
  return fields.map((field) => (values as Readonly<Record<string, string | number>>)[field]).join(fieldEnd);
}

export function readArgument<Name extends ArgumentName>(
  name: Name,
  text: string,
): Readonly<Record<(typeof argumentFields)[Name][number], string>> {
  const parts = text.split(fieldEnd);
  const fields: readonly string[] = argumentFields[name];
  return Object.fromEntries(fields.map((field, at) => [field, parts[at] ?? ""])) as never;
}
