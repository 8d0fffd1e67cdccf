/**
 * The catalogue of what the feed can say about a job, one kind per verb of its life, and about queues and workers. The
 * model chooses the kind; a store only packs it into the feed (rule R10). `extra` is one value whose meaning follows
 * from the kind.
 */

/** Stores keep these codes: they never change and are never reused for another kind. */
export const eventCodes = {
  submitted: 0,
  replaced: 1,
  promoted: 2,
  claimed: 3,
  completed: 4,
  failed: 5,
  cancelled: 6,
  expired: 7,
  skipped: 8,
  "retry-scheduled": 9,
  snoozed: 10,
  throttled: 11,
  "handed-back": 12,
  reclaimed: 13,
  suspended: 14,
  resumed: 15,
  freed: 16,
  rescheduled: 17,
  edited: 18,
  "cancel-asked": 19,
  replayed: 20,
  deleted: 21,
  revoked: 22,
  started: 23,
  progress: 24,
  "queue-changed": 25,
  "queue-empty": 26,
  "worker-joined": 27,
  "worker-left": 28,
  /** The end of a member was passed on along more of its edges. */
  "passed-on": 29,
  /** An entry was appended to the journal of a durable run, whose state did not change. */
  signalled: 30,
  /** The running attempt has written frames, or the summary of its output. */
  output: 31,
  "budget-warned": 32,
  "budget-breached": 33,
  /** A step of a durable run has ended or failed, of a job that wants such events. */
  step: 34,
} as const;

export type EventKind = keyof typeof eventCodes;

const kinds = Object.keys(eventCodes) as readonly EventKind[];

export function eventOfCode(code: number): EventKind {
  const kind = kinds[code];
  if (kind === undefined) throw new RangeError(`no event kind has the code ${code}`);
  return kind;
}
