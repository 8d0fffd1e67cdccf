/**
 * The numbers with which a submit places a new job (rule R1), each under the name of its parameter: submit_v1 takes a
 * list of each, submit_one_v1 one number of each.
 */
import type { Due } from "../../../model/job/change.ts";
import type { NewJob } from "../../../store/records.ts";

const inMs = (due: Due | null): number | null => (due !== null && "inMs" in due ? due.inMs : null);
const at = (due: Due | null): number | null => (due !== null && "at" in due ? due.at : null);

interface PlaceParameter {
  readonly name: string;
  readonly of: (job: NewJob) => number | null;
  /** A list in which all jobs have this value is left out. */
  readonly usual: number | null;
}

export const placeParameters: readonly PlaceParameter[] = [
  { name: "p_due_in", of: ({ due }) => inMs(due), usual: 0 },
  { name: "p_due_at", of: ({ due }) => at(due), usual: null },
  { name: "p_rank_base", of: ({ rankBase }) => rankBase, usual: 0 },
  { name: "p_rank_slope", of: ({ rankSlope }) => rankSlope, usual: 1 },
  { name: "p_deadline_in", of: ({ deadline }) => inMs(deadline), usual: null },
  { name: "p_deadline_at", of: ({ deadline }) => at(deadline), usual: null },
  { name: "p_ttl", of: ({ ttlMs }) => ttlMs, usual: null },
];

export const declarePlace = (type: string): readonly string[] =>
  placeParameters.map(({ name }) => `${name} ${type}`);
