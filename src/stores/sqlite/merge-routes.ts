/**
 * A claim over several routes: which jobs come first, by (rank, seq), over all of them. The heads of the routes are
 * merged here, and a route whose last candidate was taken is asked again, so that a claim of few jobs never reads
 * many.
 */
import { columnList, fieldReader } from "./columns.ts";
import { limitTo } from "./connection.ts";
import type { Statements } from "./connection.ts";
import { isReady } from "./schema.ts";

export const claimable = `millrace_job j INDEXED BY millrace_job_ready`;
export const isClaimable = `j.route = @route AND ${isReady} AND (j.timer_at IS NULL OR j.timer_at > @now)`;
export const inOrder = "ORDER BY j.rank, j.seq";

const candidateNames = ["rank", "seq"] as const;
const rankOf = fieldReader(candidateNames, "rank");
const seqOf = fieldReader(candidateNames, "seq");
/** Inputs: route, now, rank, seq, limit. Answer: (rank, seq) of what waits behind that place. */
const readCandidates = `SELECT ${columnList(candidateNames, {}, "j.")} FROM ${claimable}
  WHERE ${isClaimable} AND (j.rank, j.seq) > (@rank, @seq) ${inOrder} ${limitTo("@max")}`;

/** Where a job stands in the order of its route. */
interface Candidate {
  readonly rank: number;
  readonly seq: number;
}

interface Head {
  readonly route: number;
  candidates: Candidate[];
  next: number;
  /** The last batch was not full: nothing waits behind it. */
  isDry: boolean;
}

const start: Candidate = { rank: -Number.MAX_SAFE_INTEGER, seq: 0 };

/** The seqs of the first jobs over all routes. */
export function mergeRoutes(
  statements: Statements,
  routes: readonly number[],
  { max, now }: { readonly max: number; readonly now: number },
): number[] {
  const batch = Math.ceil((2 * max) / routes.length) + 8;
  const fetch = (head: Head, { rank, seq }: Candidate): void => {
    const rows = statements(readCandidates).all({ route: head.route, now, rank, seq, max: batch });
    head.candidates = rows.map((row) => ({ rank: rankOf(row), seq: seqOf(row) }));
    head.next = 0;
    head.isDry = rows.length < batch;
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
