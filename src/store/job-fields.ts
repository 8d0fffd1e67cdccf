/**
 * The fields of a job, each declared once. From this table every store makes its tables or packed texts, its column
 * lists, its moves between live and finished jobs and its row readers, by name. No store reads a field by its number.
 *
 *  type     integer, text, flag (0 or 1), list (texts)
 *  home     spec   what the job is: written by the submit, changed only by an edit or a replacement
 *           state  its present state: changes with every step of its life
 *           lease  its owner, or its last one
 *           end    how it ended; a live job has none of it
 *  initial  the value of a new job if the submit gives none; absent if the store always sets one (rule R1)
 *  cleared  the rules that set it back to its initial value: lease (R6), place (back among the waiting, R1), finish
 *           (R3), replay (a finished job that comes back)
 *  isRare   most jobs have the initial value; a new job with another one is not plain (plain.ts)
 *  isOwn    for the store's own use: a read of the job does not show it
 *
 * To add a field, add one line here, and the code that uses it. See CONTRIBUTING, "Add a field of a job".
 */

export interface JobField {
  readonly type: "integer" | "text" | "flag" | "list";
  readonly home: "spec" | "state" | "lease" | "end";
  readonly isNullable?: true;
  readonly initial?: number | string | null;
  readonly cleared?: readonly ("lease" | "place" | "finish" | "replay")[];
  readonly isRare?: true;
  readonly isOwn?: true;
}

export const jobFields = {
  seq: { type: "integer", home: "spec" },
  id: { type: "text", home: "spec" },
  createdAt: { type: "integer", home: "spec" },
  digest: { type: "text", home: "spec", isNullable: true, initial: null, isRare: true, isOwn: true },
  /** As submitted, whether the job still holds it or not. */
  uniqueKey: { type: "text", home: "spec", isNullable: true, initial: null, isRare: true },
  /** How long the key is held: see rules/unique-holds.ts. */
  uniqueHold: { type: "integer", home: "spec", isNullable: true, initial: null, isRare: true, isOwn: true },
  /** The lane of the job (model/routing/lane.ts), its step of the lane's turn, and the gates of its keys. */
  laneKey: { type: "text", home: "spec", isNullable: true, initial: null, isRare: true },
  laneStep: { type: "integer", home: "spec", isNullable: true, initial: null, isRare: true },
  laneGates: { type: "list", home: "spec", isNullable: true, initial: null, isRare: true },
  /** The flow of a member, its edges (model/flow/edge.ts), and how it is placed when it is freed. */
  flow: { type: "text", home: "spec", isNullable: true, initial: null, isRare: true },
  edges: { type: "list", home: "spec", isNullable: true, initial: null, isRare: true },
  freed: { type: "text", home: "spec", isNullable: true, initial: null, isRare: true, isOwn: true },
  tags: { type: "list", home: "spec", isNullable: true, initial: null },
  policy: { type: "text", home: "spec", isNullable: true, initial: null },
  meta: { type: "text", home: "spec", isNullable: true, initial: null },
  input: { type: "text", home: "spec" },

  route: { type: "integer", home: "state", isOwn: true },
  state: { type: "integer", home: "state" },
  /** 1 after the submit, then one more with every event but `started`, `progress` and `signalled`. */
  rev: { type: "integer", home: "state", initial: 1 },
  rank: { type: "integer", home: "state" },
  dueAt: { type: "integer", home: "state" },
  deadlineAt: { type: "integer", home: "state", isNullable: true, initial: null },
  ttlAt: { type: "integer", home: "state", isNullable: true, initial: null, cleared: ["lease", "place"] },
  /** The earliest clock of the present state, computed from the others. */
  timerAt: {
    type: "integer",
    home: "state",
    isNullable: true,
    initial: null,
    cleared: ["finish"],
    isOwn: true,
  },
  attempt: { type: "integer", home: "state", initial: 0 },
  countsAttempt: { type: "flag", home: "state", initial: 1, cleared: ["lease"] },
  fence: { type: "integer", home: "state", initial: 0 },
  /** The fence of the last settle that was applied: its repeat is answered `already`. */
  settledFence: { type: "integer", home: "state", isNullable: true, initial: null, isOwn: true },
  cancelAsked: { type: "flag", home: "state", initial: 0, cleared: ["replay"] },
  /** Which unique key the job holds now: see rules/unique-holds.ts. */
  holds: { type: "integer", home: "state", initial: 0, cleared: ["finish"], isOwn: true },
  /** The token of the last change by an operator or a duty: its repeat is answered `already`. */
  changeToken: { type: "text", home: "state", isNullable: true, initial: null, isOwn: true },
  /** It holds the gate of its group without running: it waits for its retry, or has failed. */
  keepsLane: { type: "flag", home: "state", initial: 0, cleared: ["place"] },
  /** What a member waits for and has passed on (model/flow/flow-waits.ts); null without a flow. */
  waits: { type: "text", home: "state", isNullable: true, initial: null, isRare: true },
  /** Marks and the round of a durable run (model/durable/durable-marks.ts); 0 as long as its journal is empty. */
  durable: { type: "integer", home: "state", initial: 0 },
  attempts: { type: "text", home: "state", isNullable: true, initial: null },
  progress: { type: "text", home: "state", isNullable: true, initial: null },

  /** Of the present or last attempt; `leaseEndsAt` and `attemptEndsAt` are null unless it is running. */
  owner: { type: "text", home: "lease", isNullable: true, initial: null },
  claimedAt: { type: "integer", home: "lease", isNullable: true, initial: null },
  startedAt: { type: "integer", home: "lease", isNullable: true, initial: null, cleared: ["lease"] },
  leaseEndsAt: {
    type: "integer",
    home: "lease",
    isNullable: true,
    initial: null,
    cleared: ["place", "finish"],
  },
  attemptEndsAt: {
    type: "integer",
    home: "lease",
    isNullable: true,
    initial: null,
    cleared: ["lease", "place", "finish"],
  },

  endedAt: { type: "integer", home: "end", isNullable: true, initial: null, cleared: ["replay"] },
  keepUntil: { type: "integer", home: "end", isNullable: true, initial: null, cleared: ["replay"] },
  /** When the result is deleted; null for together with the job. */
  resultUntil: {
    type: "integer",
    home: "end",
    isNullable: true,
    initial: null,
    cleared: ["replay"],
    isOwn: true,
  },
  reason: { type: "text", home: "end", isNullable: true, initial: null, cleared: ["replay"] },
  result: { type: "text", home: "end", isNullable: true, initial: null, cleared: ["replay"] },
} as const satisfies Readonly<Record<string, JobField>>;

export type JobFields = typeof jobFields;
export type JobFieldName = keyof JobFields;

type ValueOf<Field extends JobField> =
  | { integer: number; text: string; flag: 0 | 1; list: readonly string[] }[Field["type"]]
  | (Field extends { readonly isNullable: true } ? null : never);

/** A job with every field, as the rules read and change it. `state` is the code of the job's state. */
export type JobRow = { -readonly [Name in JobFieldName]: ValueOf<JobFields[Name]> };

/** The fields of a job that a claim returns. */
export const leasedFields = [
  ...(["id", "seq", "fence", "route", "rev", "attempt", "input", "policy", "meta", "attempts"] as const),
  ...(["createdAt", "dueAt", "claimedAt", "deadlineAt", "durable"] as const),
] as const satisfies readonly JobFieldName[];

/** The fields that a duty needs to decide about a job with a due clock. */
export const dueFields = [
  ...(["id", "seq", "fence", "route", "state", "rev", "attempt", "policy", "attempts", "owner"] as const),
  ...([
    "cancelAsked",
    "startedAt",
    "leaseEndsAt",
    "attemptEndsAt",
    "deadlineAt",
    "ttlAt",
    "durable",
  ] as const),
] as const satisfies readonly JobFieldName[];

/** Those of `dueFields` that a duty gets in another form: `DueJob` in records.ts, made by due-job.ts. */
export const answeredOtherwise = [
  ...(["state", "cancelAsked", "startedAt", "leaseEndsAt", "attemptEndsAt", "deadlineAt", "ttlAt"] as const),
] as const satisfies readonly (typeof dueFields)[number][];

/** Reads the table at each call, because a test adds a field to it. */
export function fieldNames(
  isWanted: (field: JobField, name: string) => boolean = () => true,
): JobFieldName[] {
  return (Object.keys(jobFields) as JobFieldName[]).filter((name) => isWanted(jobFields[name], name));
}

export const isSpecField = ({ home }: JobField): boolean => home === "spec";
/** A field of a live job outside its spec. */
export const isLiveField = ({ home }: JobField): boolean => home === "state" || home === "lease";
/** A field of a finished job outside its spec: not cleared by the end, or written by it. */
export const isFinishedField = (field: JobField): boolean =>
  !isSpecField(field) && field.cleared?.includes("finish") !== true;
export const isClearedBy =
  (rule: "lease" | "place" | "finish" | "replay") =>
  ({ cleared }: JobField): boolean =>
    cleared?.includes(rule) === true;

/** leaseEndsAt -> lease_ends_at, as SQL names it. */
export function columnOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
