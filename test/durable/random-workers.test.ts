// Random durable handlers over the whole engine and SQLite, with processes that die at any call and replies that are
// lost: every run completes, no recorded step runs again, and a replay of its journal returns what it returned.
import { expect, test } from "vitest";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { openVirtualMill } from "../support/virtual/virtual-mill.ts";
import { drawProgram } from "./programs.ts";
import { WorkerWorld } from "./worker-world.ts";

const count = Number(process.env["MILLRACE_DURABLE"] ?? 25);
const from = Number(process.env["MILLRACE_DURABLE_FROM"] ?? 1);

test("every run completes as its journal says, whichever calls its processes die at", async () => {
  const found: string[] = [];
  for (let seed = from; seed < from + count && found.length === 0; seed++) {
    const v = await openVirtualMill({ duties: true });
    v.mill.duties.start();
    const program = drawProgram(createSeededRandom(`program ${seed}`));
    const violations = await new WorkerWorld(v, `workers ${seed}`, program).play();
    found.push(...violations.map((each) => `seed ${seed}: ${each}`));
    await v.store.close();
  }
  expect(found).toEqual([]);
});
