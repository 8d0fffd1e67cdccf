/**
 * Arguments of several fields, and small records beside those of jobs: the tables of their names, by which both sides
 * read and write them.
 */
import { fieldEnd } from "../../../store/packing/packed-text.ts";

/** A next that leaves a field as it is; no packed text holds this character. */
export const unchanged = "\x02";
/** In the place of a put's guard: it adds to a counter. */
export const adds = "+";
/** The texts of an edit. */
export const editTexts = ["input", "policy", "meta"] as const;
const editFields = [...editTexts, "tags"] as const;

/** What bounds each key of a gate; perKey: 1 where that is given. */
const perKeyNumbers = ["perKey", "perCap", "perStepUs", "perBurstUs"] as const;
/** What a gate is made of, as its record has it before isIntakeClosed and body; and as a put of it sends it. */
export const gateNumbers = [
  ...(["version", "cap", "stepUs", "burstUs", "tatUs", "closedUntil"] as const),
  ...perKeyNumbers,
] as const;
export const putFields = [
  ...(["cap", "stepUs", "burstUs", "closed", "isIntakeClosed", "emptiesRate"] as const),
  ...perKeyNumbers,
  ...(["body", "emits"] as const),
] as const;

/** What a record is made of, added up: only these parts are sent. ending: entries of which one sets that mark. */
export const recordParts = {
  progress: 1,
  logs: 2,
  entries: 4,
  setsBack: 8,
  effects: 16,
  ending: 32,
  frames: 64,
  steps: 128,
} as const;

const entryFields = ["marks", "unread", "reads", "key", "body"] as const;

/** Fields joined in one text. */
export const argumentFields = {
  /** What jobs that were submitted alike share. due and deadline: +ms from now, or =instant. */
  shape: [
    ...(["route", "due", "rankBase", "rankSlope", "deadline", "ttlMs", "onHeld", "hasTags"] as const),
    ...(["hasLane", "hasGates", "waits", "freed"] as const),
    // The content of the route has fields of its own, so it is the last.
    "content",
  ],
  /** states: their codes in a row. rang: a clock by name. */
  guard: ["states", "rev", "fence", "rang", "mask", "marks"],
  /** What becomes of a job, by kind. */
  schedule: [
    ...(["kind", "event", "due", "rankBase", "rankSlope", "countsAttempt", "ttlMs", "attempt"] as const),
    ...(["clearsPassedDeadline", "keepsLane", "newRound", ...editFields] as const),
  ],
  suspend: ["kind", "event", "wake", "countsAttempt", "attempt", "keepsLane"],
  handBack: ["kind", "event", "countsAttempt"],
  update: ["kind", "event", "cancelAsked", "rankBase", "rankSlope", "passesOn", ...editFields],
  /** need and slack: none where the counts stay. parents: edges, as a list. */
  block: ["kind", "event", "attempt", "need", "slack", "parents"],
  delete: ["kind", "event"],
  finish: ["kind", "event", "to", "keepMs", "keepResultMs", "keepsLane", "reason", "result"],
  /**
   * An entry of a journal. unread: its size, or nothing; reads: numbers by comma. What it is stored as follows the
   * first three.
   */
  entry: [...entryFields],
  /** The same by another than the run's worker. */
  append: ["countMax", "sizeMax", ...entryFields],
  /** To a counter. leaves: kind and id of a document, which has a field of its own, so it is the last. */
  add: ["by", "ceiling", "marks", "leaves"],
  /** Records of a unique key, a document and a gate. */
  holder: ["handle", "hold", "heldUntil", "id"],
  doc: ["version", "dueAt", "expiresAt", "body"],
  gate: [...gateNumbers, "isIntakeClosed", "body"],
  /**
   * Of a lane (lanes.lua.ts): its first job, its turn, and the gates at which it waits.
   */
  lane: ["handle", "place", "route", "turn", "waitsAt"],
} as const;

type ArgumentName = keyof typeof argumentFields;
type FieldOf<Name extends ArgumentName> = (typeof argumentFields)[Name][number];
type Value = string | number | boolean | null | undefined;

/** A value as an argument or a field has it, whose texts are packed already. */
export function valueText(value: Value): string {
  if (value === null || value === undefined) return "";
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}

export function argumentText<Name extends ArgumentName>(
  name: Name,
  values: Readonly<Record<Exclude<FieldOf<Name>, "kind">, Value>>,
): string {
  const named: Readonly<Record<string, Value>> = { kind: name, ...values };
  return argumentFields[name].map((field) => valueText(named[field])).join(fieldEnd);
}

export function readArgument<Name extends ArgumentName>(
  name: Name,
  text: string,
): Readonly<Record<FieldOf<Name>, string>> {
  const parts = text.split(fieldEnd);
  return Object.fromEntries(argumentFields[name].map((field, at) => [field, parts[at] ?? ""])) as never;
}
