/** A change that is no arrow of model/job-state.ts is a wrong program, and is stopped before it is written. Looked up, not computed. */
import assert from "node:assert/strict";
import { canMove, jobStates, stateCodes, stateOfCode } from "../../model/job-state.ts";

const codes = jobStates.map((state) => stateCodes[state]);
/** By from * 16 + to. Staying in a state is not an arrow and is allowed. */
const allowed: boolean[] = [];
for (const from of codes) {
  for (const to of codes)
    allowed[from * 16 + to] = from === to || canMove(stateOfCode(from), stateOfCode(to));
}

export function assertArrow(from: number, to: number): void {
  if (allowed[from * 16 + to] !== true) {
    assert.fail(`a job cannot move from ${stateOfCode(from)} to ${stateOfCode(to)}`);
  }
}
