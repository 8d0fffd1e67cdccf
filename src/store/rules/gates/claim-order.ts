/**
 * Rule R6: which jobs a claim over several routes takes first, by (rank, seq) over all of them. The heads of the routes
 * are merged. A route whose last candidate was taken is read again, so a claim of few jobs never reads many.
 */
import type { JobRow } from "../../job-fields.ts";

/** The place of a job in the order of its route. */
export type Candidate = Pick<JobRow, "rank" | "seq">;

/** Reads the candidates of a route after a place, in order. */
export type ReadCandidates = (route: number, after: Candidate, max: number) => readonly Candidate[];

interface Head {
  readonly route: number;
  candidates: readonly Candidate[];
  next: number;
  /** The last batch was not full: no job is left after it. */
  isDry: boolean;
}

const start: Candidate = { rank: -Number.MAX_SAFE_INTEGER, seq: 0 };

/**
 * The seqs of the first jobs over all routes. A route ends as soon as one of its jobs is not admitted: later ones would
 * not be admitted either.
 */
export function mergeRoutes(
  routes: readonly number[],
  max: number,
  read: ReadCandidates,
  admits: (route: number) => boolean = () => true,
): number[] {
  const batch = Math.ceil((2 * max) / routes.length) + 8;
  const fetch = (head: Head, after: Candidate): void => {
    head.candidates = read(head.route, after, batch);
    head.next = 0;
    head.isDry = head.candidates.length < batch;
  };
  const heads = [...new Set(routes)].map((route): Head => ({ route, candidates: [], next: 0, isDry: false }));
  for (const head of heads) fetch(head, start);
  const chosen: number[] = [];
  while (chosen.length < max) {
    let first: Head | null = null;
    for (const head of heads) {
      if (head.next < head.candidates.length && (first === null || isBefore(headOf(head), headOf(first))))
        first = head;
    }
    if (first === null) break;
    if (!admits(first.route)) {
      first.next = first.candidates.length;
      continue;
    }
    const taken = headOf(first);
    chosen.push(taken.seq);
    first.next += 1;
    if (first.next === first.candidates.length && !first.isDry) fetch(first, taken);
  }
  return chosen;
}

function headOf({ candidates, next }: Head): Candidate {
  return candidates[next] as Candidate;
}

function isBefore(one: Candidate, other: Candidate): boolean {
  return one.rank < other.rank || (one.rank === other.rank && one.seq < other.seq);
}
