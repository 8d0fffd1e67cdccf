/**
 * How the fields of a job (store/job-fields.ts) stand in the two texts that the server keeps of it. The library
 * (packing.lua.ts) and this process (packed-job.ts, submit-text.ts) both read and write them by this table, by name.
 *
 *  spec    flags US id US shape US own US tail    what the submit said; only an edit or a replacement writes it anew
 *  state   state US fence US id US attempts US ...  where the job stands; a new job has none: it follows from the spec
 *
 *  shape   what jobs that were submitted alike share: worked out once for all of them
 *  own     what rules read of the single job
 *  tail    what no rule reads: carried unread, however long it is
 *
 * A settle compares fence and id, so a state begins with them. Fields in neither text: the seq is the job's name in all
 * keys (its handle), its timer is a score in an index, and which unique key it holds now stands with the key.
 */
import { fieldNames, jobFields } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../../store/job-fields.ts";

/**
 * flags and uses follow from other fields. uses: what the next step of a job uses of its spec, so that the step need
 * not read it: of a running job its laneGates, and of a job of a flow what flow-packing.lua.ts says.
 */
export type PackedName = JobFieldName | "flags" | "uses";

/**
 * What a job has beyond a plain one; a plain job has no flag, so that its spec begins with the end of an empty field.
 * In the state of a durable run its marks and the head of its journal stand before them (durable/journal.lua.ts), so
 * that no other job has a byte more: the field `durable`, a comma, and so on.
 */
export const flags = {
  ...{ key: "k", tags: "t", clocks: "c", rare: "r", lines: "l", output: "o" },
  ...{ lane: "a", gates: "g", flow: "f" },
} as const;

/** After id and time of creation, plain jobs that were submitted alike have the same text up to their inputs. */
const shortFields = ["flags", "id", "createdAt", "route", "dueAt", "rank"] as const;
/** Of the state, but given by the submit where it is given at all. */
export const rareFields = fieldNames(({ home, isRare }) => home !== "spec" && isRare === true);
const firstOwn: readonly JobFieldName[] = ["uniqueKey", "uniqueHold", "digest", "tags"];
/** What few jobs say of themselves beside their keys: their lanes, and what else is rare in a spec. */
export const saidFields: readonly JobFieldName[] = fieldNames(
  ({ home, isRare }, name) =>
    home === "spec" && isRare === true && !(firstOwn as readonly string[]).includes(name),
);
export const ownFields: readonly JobFieldName[] = [...firstOwn, ...saidFields, ...rareFields];
export const shortHead: readonly PackedName[] = shortFields;
export const headFields: readonly PackedName[] = [...shortFields, "deadlineAt", "ttlAt"];
const beforeTail: readonly string[] = ["seq", "input", ...headFields, ...ownFields];
/** The input is last: what is after the others is its size. */
export const tailFields: readonly JobFieldName[] = [
  ...fieldNames(({ home }, name) => home === "spec" && !beforeTail.includes(name)),
  "input",
];
export const specFields: readonly PackedName[] = [...headFields, ...ownFields, ...tailFields];
export const shortSpecFields: readonly PackedName[] = [...shortHead, ...tailFields];

const leaseFields = ["state", "fence", "id"] as const;
/** Stands before the flags of a state. */
export const beforeFlags: JobFieldName = "durable";
const unpackedFields: readonly string[] = [
  ...leaseFields,
  ...["attempts", "deadlineAt", "timerAt", "holds", beforeFlags],
];
/**
 * After state, fence and id. A settle sends id and attempts as one text, as they stand here side by side; and compares
 * what is before the uses, in which jobs of one kind differ.
 */
export const restFields: readonly PackedName[] = [
  ...(["attempts", "flags"] as const),
  ...fieldNames(({ home }, name) => home !== "spec" && !unpackedFields.includes(name)),
  "uses",
];
export const stateFields: readonly PackedName[] = [...leaseFields, ...restFields];

/** Fields that are written as a short text where they have the same value as another one. */
export type SameRules<As = string> = Readonly<
  Partial<Record<PackedName, { readonly as: As; readonly written: string }>>
>;

/** In a spec: 26 bytes less for most jobs. */
export const sameInSpec: SameRules<JobFieldName> = {
  dueAt: { as: "createdAt", written: "" },
  rank: { as: "dueAt", written: "" },
};
export const sameInState: SameRules<JobFieldName> = {
  settledFence: { as: "fence", written: "=" },
  startedAt: { as: "claimedAt", written: "=" },
};
/** Never other in a state than in the spec: for those who read the state alone. */
export const repeatedInState: readonly PackedName[] = ["id", "route"];
/** Left empty in a state while they are what the spec says. */
export const asInSpec: readonly JobFieldName[] = ["dueAt", "rank"];

/** The packed text of a field that nobody has set. */
export function initialText(name: PackedName): string {
  if (name === "flags" || name === "uses") return "";
  const { initial } = jobFields[name] as JobField;
  return initial === undefined || initial === null ? "" : String(initial);
}
