/**
 * Claim (rule R6): hands out ready jobs in order of (rank, seq), each with a new fence and a lease. Never a job one
 * of whose clocks has rung: that one belongs to a duty.
 *
 * Select, then update by a list of seqs: 8 us per job by 500; as one UPDATE .. RETURNING with the select inside 9 to
 * 10. A job that holds its unique key until it is started goes the general path. Large inputs are read one by one
 * until the claim has its bytes, so that it never holds much more.
 */
import assert from "node:assert/strict";
import { stateCodes } from "../../../model/job/job-state.ts";
import { leasedFields } from "../../../store/job-fields.ts";
import { choosePath } from "../../../store/paths.ts";
import type { ClaimAnswer, ClaimRequest } from "../../../store/operations.ts";
import type { LeasedJob } from "../../../store/records.ts";
import type { Admission } from "../../../store/rules/gates/admit.ts";
import { mergeRoutes } from "../../../store/rules/gates/claim-order.ts";
import { lease } from "../../../store/rules/lease.ts";
import type { Claiming } from "../../../store/rules/lease.ts";
import { earlier } from "../../../store/rules/timer.ts";
import { count, emitAlike, emitMove } from "../../../store/rules/call-events.ts";
import type { EmittedBundle } from "../../../store/rules/call-events.ts";
import { timerAt } from "../jobs/clock.ts";
import { clearedFormulas, rowReader, setList } from "../connection/columns.ts";
import type { Formulas } from "../connection/columns.ts";
import { limitTo, readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";
import { nextClockInMs } from "../upkeep/due.ts";
import { Unreadable } from "../connection/errors.ts";
import { moveTokens, openAdmission } from "../limits/gates.ts";
import { LanePick } from "../groups/claim-lanes.ts";
import { hasOpenLane } from "../groups/lanes.ts";
import { nextKeyClock } from "../limits/key-gates.ts";
import { columns, handedOut, lowestFenceOf, readHolds, readLeased, readListed } from "./leased-columns.ts";
import { sqlitePaths } from "../paths.ts";
import { readLanedRoutes } from "../jobs/routes.ts";
import { readLive } from "../jobs/job-rows.ts";
import { isReady } from "../connection/schema.ts";
import { runOnSeqs } from "../connection/seq-list.ts";
import type { Step } from "../connection/transaction.ts";
import { writeOutcome } from "../jobs/write-outcome.ts";
import { sql } from "../../../store/sql.ts";

const { ready, running } = stateCodes;

/** What only the store keeps of a lease; what is handed out is in leased-columns.ts. */
const kept: Formulas = {
  ...clearedFormulas("lease"),
  state: running,
  owner: "@owner",
  startedAt: "@startedAt",
  leaseEndsAt: "@leaseEndsAt",
  timerAt: timerAt.leased("@leaseEndsAt"),
};

const claimable = "millrace_job j INDEXED BY millrace_job_ready";
const isClaimable = `j.route = @route AND ${isReady} AND (j.timer_at IS NULL OR j.timer_at > @now)`;
const inOrder = "ORDER BY j.rank, j.seq";

/** Inputs: route, now. Answer: a row where anybody waits. */
const hasAny = sql`SELECT 1 FROM ${claimable} WHERE ${isClaimable} LIMIT 1`;
/** Inputs: route, now, rank, seq, limit. Answer: (rank, seq) of what waits behind that place. */
const readBehind = sql`SELECT j.rank, j.seq FROM ${claimable}
  WHERE ${isClaimable} AND (j.rank, j.seq) > (@rank, @seq) ${inOrder} ${limitTo("@max")}`;
const readCandidate = rowReader(["rank", "seq"]);
/** Input: seq. Answer: the input of this job, however large. */
const readInput = "SELECT input FROM millrace_spec WHERE seq = ?";
/** Inputs: route, now, lowest fence, limit. Answer: the head of the route; null for an input that is not small. */
const readHead = sql`SELECT ${columns} FROM ${claimable} LEFT JOIN millrace_spec s ON s.seq = j.seq
  WHERE ${isClaimable} ${inOrder} ${limitTo("@max")}`;
/** Inputs: lowest fence, a JSON list of seqs. Answer: the same of these jobs. */
const readChosen = `${readListed} ${inOrder}`;
/** Inputs: lowest fence, now, owner, start, lease end, then the seqs. Guard: read as ready in the same transaction. */
const leaseSeqs = sql`UPDATE millrace_job SET ${setList({ ...handedOut, ...kept })}`;

export function claim(step: Step, request: ClaimRequest): ClaimAnswer {
  const { statements, now } = step;
  const jobs: LeasedJob[] = [];
  let more = false;
  let bytesLeft = request.inputBytesMax ?? Infinity;
  const laned = readLanedRoutes(statements);
  const isByLanes = (routes: readonly number[]): boolean =>
    choosePath(sqlitePaths.claim, routes, laned) === "lanes";
  const lanes = request.offers.some(({ routes }) => isByLanes(routes));
  const admission = openAdmission(step, lanes);
  for (const { routes, max, starts = 0 } of request.offers) {
    if (max <= 0 || routes.length === 0) continue;
    if (admission !== null && isByLanes(routes)) {
      // A claim that has its bytes leaves lanes to the next one.
      if (bytesLeft <= 0) {
        more ||= hasOpenLane(statements, routes);
        continue;
      }
      const taken = claimLanes(step, routes, max, admission, { ...request, starts, bytesMax: bytesLeft });
      bytesLeft -= taken.bytes;
      jobs.push(...taken.jobs);
      more ||= taken.more;
      continue;
    }
    // A claim that has its bytes asks only whether there is more.
    const rows = bytesLeft > 0 ? readClaimable(step, routes, max, admission) : readClaimable(step, routes, 1);
    const leased = leaseRows(step, rows, { ...request, starts, bytesMax: bytesLeft });
    bytesLeft -= leased.bytes;
    for (const job of leased.jobs) {
      jobs.push(job);
      admission?.leased(job.route);
    }
    more ||= rows.length === max || leased.jobs.length < rows.length;
  }
  if (admission !== null) moveTokens(step, admission);
  const opensAt = earlier(admission?.opensAt ?? null, lanes ? nextKeyClock(statements) : null);
  return {
    ...{ jobs, more, nextDueInMs: nextClockInMs(statements, now), now },
    ...(opensAt === null ? {} : { opensInMs: Math.max(0, opensAt - now) }),
  };
}

/** One offer of routes that have lanes. */
function claimLanes(
  step: Step,
  routes: readonly number[],
  max: number,
  admission: Admission,
  leasing: Leasing,
): { readonly jobs: readonly LeasedJob[]; readonly bytes: number; readonly more: boolean } {
  const pick = new LanePick(step, routes, max, admission);
  const rows = pick.readRows();
  const emitted = step.lanes.length;
  const leased = leaseRows(step, rows, leasing);
  // The lanes of all picked jobs are written at once, also those of jobs that went the general path.
  step.lanes.length = emitted;
  const jobs = leased.jobs.map((job, at) => {
    const uses = pick.leased(at);
    if (uses.length > 0) (job as { keyGates?: string[] }).keyGates = uses.map(({ key }) => key);
    return job;
  });
  pick.close(jobs.length);
  return {
    jobs,
    bytes: leased.bytes,
    more: rows.length === max || jobs.length < rows.length || pick.isCut,
  };
}

/** The jobs as they will stand once leased, in claim order: those that pass their gates. */
function readClaimable(
  step: Step,
  routes: readonly number[],
  max: number,
  admission: Admission | null = null,
): unknown[] {
  const { statements, now } = step;
  const lowestFence = lowestFenceOf(step);
  // A definition with limits has two routes, the plain one for jobs from before it had them; mostly one has jobs.
  const waited =
    routes.length === 1
      ? routes
      : routes.filter((of) => statements(hasAny).get({ route: of, now }) !== undefined);
  const [route] = waited;
  if (route === undefined) return [];
  if (waited.length === 1) {
    // One more than there is room for, so that it is known whether anybody is refused.
    const read = admission === null ? max : Math.min(max, admission.room(route) + 1);
    const rows = statements(readHead).all({ route, now, lowestFence, max: read });
    return admission === null ? rows : rows.filter(() => admission.admit(route));
  }
  const seqs = mergeRoutes(
    waited,
    max,
    (of, after, batch) =>
      statements(readBehind)
        .all({ route: of, now, ...after, max: batch })
        .map(readCandidate),
    admission === null ? undefined : (of) => admission.admit(of),
  );
  return seqs.length === 0 ? [] : statements(readChosen).all({ lowestFence, seqs: JSON.stringify(seqs) });
}

interface Leasing extends Pick<ClaimRequest, "owner" | "leaseMs"> {
  /** How many of the jobs have started with the claim. */
  readonly starts: number;
  readonly bytesMax: number;
}

/** Leases the first of these jobs, until their inputs have N bytes. */
function leaseRows(
  step: Step,
  rows: readonly unknown[],
  { owner, leaseMs, starts, bytesMax }: Leasing,
): { readonly jobs: readonly LeasedJob[]; readonly bytes: number } {
  const { statements, now } = step;
  const jobs: LeasedJob[] = [];
  const started: number[] = [];
  const waiting: number[] = [];
  let bytes = 0;
  let emitted: EmittedBundle | undefined;
  for (let place = 0; place < rows.length; place++) {
    if (bytes >= bytesMax) break;
    const row = rows[place];
    const job = readLeased(row, now);
    if ((job.input as string | null) === null) job.input = inputOf(statements, job.seq);
    if (bytesMax !== Infinity) bytes += Buffer.byteLength(job.input);
    const isStarted = jobs.length < starts;
    if (choosePath(sqlitePaths.lease, readHolds(row)) === "general") {
      jobs.push(leaseGeneral(step, job.seq, { owner, leaseMs, starts: isStarted }));
      continue;
    }
    const { id, seq, rev, route, attempt } = job;
    (isStarted ? started : waiting).push(seq);
    const extra = isStarted ? 1 : null;
    jobs.push(job as LeasedJob);
    // Most differ from the one before in their id alone: no event is made of these.
    const isLike =
      emitted !== undefined &&
      emitted === step.events.at(-1) &&
      emitted.rev === rev &&
      emitted.route === route &&
      emitted.attempt === attempt &&
      emitted.extra === extra;
    if (isLike) {
      count(step, route, ready, -1);
      emitAlike(step, { route, state: running }, emitted as EmittedBundle, id);
    } else {
      emitMove(step, ready, { kind: "claimed", id, rev, route, state: running, attempt, extra });
      emitted = step.events.at(-1);
    }
  }
  const named = { lowestFence: lowestFenceOf(step), now, owner, leaseEndsAt: now + leaseMs };
  runOnSeqs(statements, leaseSeqs, started, { ...named, startedAt: now });
  runOnSeqs(statements, leaseSeqs, waiting, { ...named, startedAt: null });
  return { jobs, bytes };
}

function inputOf(statements: Statements, seq: number): string {
  const input = readValue<string>(statements, readInput, seq);
  if (input === null) throw new Unreadable("job", seq, "its spec is missing");
  return input;
}

/** The general path: a job whose key is freed by its start. */
export function leaseGeneral(
  step: Step,
  seq: number,
  claiming: Pick<Claiming, "owner" | "leaseMs" | "starts">,
): LeasedJob {
  const row = readLive(step.statements, seq);
  assert(row !== null, "a job that was read as ready is live in the same transaction");
  const outcome = lease(row, { ...claiming, epoch: step.commit.epoch, now: step.now });
  writeOutcome(step, row, outcome);
  return Object.fromEntries(leasedFields.map((name) => [name, outcome.row[name]])) as unknown as LeasedJob;
}
