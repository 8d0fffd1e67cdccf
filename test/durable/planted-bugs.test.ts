// Each planted bug is found by the random programs, so that their silence about the real code means something.
// MILLRACE_DURABLE_SHOW=1 prints the program that finds each bug, and what it finds.
import { expect, test } from "vitest";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { DurableWorld, faultKinds } from "./durable-world.ts";
import type { Bugs } from "./durable-world.ts";
import { plantedBugs } from "./planted-bugs.ts";
import { drawProgram } from "./programs.ts";

const programsMax = 150;

/** Bugs that only later programs find: the search begins there, because each program costs a tenth of a second. */
const beginsAt: Readonly<Record<string, number>> = {
  "delivery before the answer of patched is durable": 24,
  "a patch that was refused is allowed later": 36,
};

async function firstViolation(bugs: Bugs, from: number): Promise<string | null> {
  for (let seed = from; seed < from + programsMax; seed++) {
    const program = drawProgram(createSeededRandom(`program ${seed}`));
    const play = (call: number, kind: (typeof faultKinds)[number] | null) =>
      new DurableWorld(`world ${seed}`, program, kind === null ? null : { call, kind }, bugs).play();
    const quiet = await play(0, null);
    if (quiet.violations[0] !== undefined) return `seed ${seed}: ${quiet.violations[0]}`;
    for (let call = 0; call < Math.min(quiet.calls, 40); call++)
      for (const kind of faultKinds) {
        const { violations } = await play(call, kind);
        if (violations[0] !== undefined) return `seed ${seed}, ${kind} at call ${call}: ${violations[0]}`;
      }
  }
  return null;
}

test.each(Object.keys(plantedBugs))("%s is found", async (name) => {
  const found = await firstViolation(plantedBugs[name] as Bugs, beginsAt[name] ?? 1);
  if (process.env["MILLRACE_DURABLE_SHOW"] !== undefined) console.log(`${name}: ${found}`);
  expect(found).not.toBeNull();
});
