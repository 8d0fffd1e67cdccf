/**
 * Submit: the first step of a job's life. A unit is written whole or not at all; one refused unit leaves the others
 * alone.
 *
 * Plain jobs (store/path-predicates.ts) cannot be refused and have no conflict: they go straight into the set of new
 * jobs (insert.ts). The rest is looked up one by one, in order, so that a job of a unit may also conflict with another
 * one of the same unit (submit-general.ts).
 */
import { queueGateKey } from "../../../model/limits/gate.ts";
import { choosePath } from "../../../store/paths.ts";
import { isGrowth, mayBeRefusedLate } from "../../../store/path-predicates.ts";
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../../store/operations.ts";
import type { NewJob } from "../../../store/records.ts";
import { refusalOfPut } from "../../../store/rules/add.ts";
import { placePlain } from "../../../store/rules/place.ts";
import { savepoint, rollBack, emitSubmitted } from "../../../store/rules/call-events.ts";
import { isDocAt, putDoc } from "../documents/documents.ts";
import { growFlow } from "../flows/edges.ts";
import { readClosedIntakes } from "../limits/gates.ts";
import { sqlitePaths } from "../paths.ts";
import { keepRoute } from "./routes.ts";
import { nextSeq } from "../connection/transaction.ts";
import type { Step } from "../connection/transaction.ts";
import { flushTargets } from "../flows/targets.ts";
import { submitGeneral } from "./submit-general.ts";

export function submit(step: Step, units: readonly SubmitUnit[]): SubmitAnswer[] {
  const closedIntakes = readClosedIntakes(step);
  const mayBeRefused = (unit: SubmitUnit): boolean => closedIntakes.size > 0 || mayBeRefusedLate(unit);
  return units.map((unit) =>
    mayBeRefused(unit)
      ? allOrNothing(step, () => submitUnit(step, unit, closedIntakes))
      : submitUnit(step, unit, closedIntakes),
  );
}

/** Runs a unit that writes before it knows whether all of it holds. */
export function allOrNothing<A extends { readonly kind: string }>(step: Step, run: () => A): A {
  const { statements, commit } = step;
  commit.insert.flush();
  flushTargets(step);
  const before = savepoint(step);
  statements("SAVEPOINT millrace_unit").run();
  const answer = run();
  commit.insert.flush();
  if (answer.kind === "ok") flushTargets(step);
  if (answer.kind !== "ok") {
    statements("ROLLBACK TO millrace_unit").run();
    rollBack(step, before);
    step.ended.length = 0;
    step.targets.clear();
    commit.lastSeq = null;
    commit.routes.clear();
  }
  statements("RELEASE millrace_unit").run();
  return answer;
}

const none: ReadonlySet<string> = new Set();

/** @param closedIntakes keys of the gates of queues that refuse what is new. */
export function submitUnit(step: Step, unit: SubmitUnit, closedIntakes = none): SubmitAnswer {
  const isRepeat = unit.isRepeat === true;
  const refusal = isRepeat ? null : checkDocs(step, unit);
  if (refusal !== null) return refusal;
  const { jobs } = unit;
  // What is true of a plain job; a list that is filled by pushes has room for 17, and most units have one job.
  const ids = jobs.map(({ id }) => id);
  const hows = jobs.map((): SubmitHow => "created");
  // A unit one of whose minted ids is known has happened whole, so its documents are not put again. Another job that
  // holds a unique key proves nothing: the first try may never have arrived.
  let hasHappened = false;
  for (let place = 0; place < jobs.length; place++) {
    const job = jobs[place] as NewJob;
    const isRefused = closedIntakes.size > 0 && closedIntakes.has(queueGateKey(job.queue));
    const path = choosePath(sqlitePaths.submit, job);
    if (path === "set" && !isRepeat && !isRefused) {
      submitPlain(step, job);
      continue;
    }
    const answer = submitGeneral(step, job, { isRepeat, isRefused, isMember: path === "flow members" });
    if (answer.kind === "refused") return answer;
    ids[place] = answer.id;
    hows[place] = answer.how;
    hasHappened ||= answer.isKnown && job.digest === null;
  }
  if (hasHappened) return { kind: "ok", ids, hows };
  const late = isRepeat ? checkDocs(step, unit) : null;
  if (late !== null) return late;
  const closed = isGrowth(unit) ? growFlow(step, unit) : null;
  if (closed !== null) return { kind: "refused", reason: "flow-closed", id: closed };
  if (unit.docs === undefined) return { kind: "ok", ids, hows };
  for (const put of unit.docs) {
    const reason = refusalOfPut(putDoc(step, put));
    if (reason !== null) return { kind: "refused", reason, id: put.id };
  }
  return { kind: "ok", ids, hows };
}

/** The refusal of a unit one of whose checks does not hold. */
function checkDocs(step: Step, { checks }: SubmitUnit): SubmitAnswer | null {
  if (checks === undefined) return null;
  for (const check of checks)
    if (!isDocAt(step, check)) return { kind: "refused", reason: "doc-changed", id: check.id };
  return null;
}

/** Nothing is looked up, and the rare fields of the job have their initial values. */
function submitPlain(step: Step, job: NewJob): void {
  const { statements, commit, now } = step;
  const route = keepRoute(statements, commit.routes, job);
  const row = placePlain(job, { seq: nextSeq(commit), route, now });
  commit.insert.addPlain(row);
  emitSubmitted(step, row);
}
