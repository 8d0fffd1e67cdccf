// Random durable handlers with one fault at every store call of their run: every life of a run learns the same, in the
// same order, and a replay of the whole journal runs nothing and writes nothing.
import { expect, test } from "vitest";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { DurableWorld, faultKinds } from "./durable-world.ts";
import type { Bugs, Fault } from "./durable-world.ts";
import { drawProgram } from "./programs.ts";

const count = Number(process.env["MILLRACE_DURABLE"] ?? 25);
const from = Number(process.env["MILLRACE_DURABLE_FROM"] ?? 1);

async function violationsOf(bugs: Bugs, programs: number): Promise<string[]> {
  const found: string[] = [];
  let stories = 0;
  for (let seed = from; seed < from + programs && found.length === 0; seed++) {
    const program = drawProgram(createSeededRandom(`program ${seed}`), bugs.hasIo);
    const play = async (fault: Fault | null): Promise<number> => {
      const { calls, violations } = await new DurableWorld(`world ${seed}`, program, fault, bugs).play();
      const where = fault === null ? "" : `, ${fault.kind} at call ${fault.call}`;
      found.push(...violations.map((each) => `seed ${seed}${where}: ${each}`));
      stories += 1;
      return calls;
    };
    const calls = await play(null);
    for (let call = 0; call < calls && found.length === 0; call++)
      for (const kind of faultKinds) await play({ call, kind });
  }
  if (process.env["MILLRACE_DURABLE"] !== undefined) console.log(`${programs} programs, ${stories} stories`);
  return found;
}

test("replays learn the same in the same order, whichever call a fault meets", async () => {
  expect(await violationsOf({}, count)).toEqual([]);
});

test("a handler with plain I/O between its steps has the same values in every replay", async () => {
  expect(await violationsOf({ hasIo: true }, count)).toEqual([]);
});
