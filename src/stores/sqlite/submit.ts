/**
 * Submit: the first step of a job's life. A unit is written whole or not at all; one refused unit leaves the others alone.
 *
 * Jobs with a minted id and no unique key cannot be refused: they are collected over all units of the call and written with few
 * statements. The rest is looked up one by one, in order, so that jobs of one unit may also meet each other.
 */
import type { SubmitAnswer, SubmitHow, SubmitUnit } from "../../store/operations.ts";
import { putDoc } from "./docs.ts";
import { openInsert } from "./insert.ts";
import type { Insert } from "./insert.ts";
import { forgetRoutes } from "./route-book.ts";
import { mark, takeBack } from "./step.ts";
import type { Step } from "./step.ts";
import { submitKeyed } from "./submit-keyed.ts";

export function submit(step: Step, units: readonly SubmitUnit[]): SubmitAnswer[] {
  const insert = openInsert(step);
  const answers = units.map((unit) => {
    if (!canBeRefusedLate(unit)) return submitUnit(step, insert, unit);
    insert.flush();
    return allOrNothing(step, () => submitUnit(step, insert, unit), insert.flush);
  });
  insert.flush();
  return answers;
}

/** A single look-up comes before any write of its unit and needs no savepoint. */
function canBeRefusedLate(unit: SubmitUnit): boolean {
  if (unit.docs !== undefined && unit.docs.length > 0) return true;
  return unit.jobs.length > 1 && (unit.isRepeat === true || unit.jobs.some((job) => job.digest !== null));
}

/** Runs a unit that writes before it knows whether all of it holds. */
export function allOrNothing<A extends { readonly kind: string }>(
  step: Step,
  run: () => A,
  flush: () => void,
): A {
  const { statements, turn } = step;
  const before = mark(step);
  statements("SAVEPOINT millrace_unit").run();
  const answer = run();
  flush();
  if (answer.kind !== "ok") {
    statements("ROLLBACK TO millrace_unit").run();
    takeBack(step, before);
    turn.lastSeq = null;
    forgetRoutes(turn.routes);
  }
  statements("RELEASE millrace_unit").run();
  return answer;
}

export function submitUnit(step: Step, insert: Insert, unit: SubmitUnit): SubmitAnswer {
  const ids: string[] = [];
  const hows: SubmitHow[] = [];
  // A unit one of whose minted ids is known has happened whole, so its documents are not put again. Another job that holds
  // a unique key proves nothing: the first try may never have arrived.
  let hasHappened = false;
  for (const job of unit.jobs) {
    if (job.digest === null && job.unique === null && unit.isRepeat !== true) {
      insert.add(job);
      ids.push(job.id);
      hows.push("created");
      continue;
    }
    const answer = submitKeyed(step, insert, job, unit.isRepeat === true);
    if (answer.kind === "refused") return answer;
    ids.push(answer.id);
    hows.push(answer.how);
    hasHappened ||= answer.isKnown && job.digest === null;
  }
  if (hasHappened) return { kind: "ok", ids, hows };
  for (const put of unit.docs ?? []) {
    if (putDoc(step, put).kind === "changed") return { kind: "refused", reason: "doc-changed", id: put.id };
  }
  return { kind: "ok", ids, hows };
}
