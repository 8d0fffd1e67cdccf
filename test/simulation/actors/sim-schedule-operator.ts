/**
 * Schedules in the simulation: clients define those of the plan, again and again as processes that start do, and
 * operators pause, resume, edit and run those that are not steady.
 */
import { isMillraceError } from "../../../src/model/error.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { steadyPrefix } from "../../history/firing-of.ts";
import type { SimJob } from "./sim-jobs.ts";
import { untilDone } from "./sim-gate-operator.ts";
import type { SimNode } from "./sim-node.ts";
import type { Scheduling } from "../scheduling.ts";

/** One act. Never rejects: every refusal is a part of the run. */
export async function operateSchedules(
  { schedules }: Scheduling,
  node: SimNode,
  jobs: readonly SimJob[],
  random: SeededRandom,
): Promise<void> {
  const { name, options, job } = random.pick(schedules);
  const definition = jobs[job % jobs.length] as SimJob;
  const act = name.startsWith(steadyPrefix) ? 0 : random.whole(0, 5);
  const one = node.mill.schedules;
  await unlessRefused(async () => {
    switch (act) {
      case 1:
        await one.pause(name);
        await node.process.sleep(random.whole(0, 8000));
        return one.resume(name);
      case 2:
        return one.edit(name, {
          overlap: random.pick(["allow", "skip", "queue-one", "cancel-previous"] as const),
        });
      case 3:
        return one.edit(name, { missed: random.pick(["skip", "once", { all: 3 }] as const) });
      case 4:
        return one.runNow(name);
      default:
        return node.mill.schedule(
          name,
          definition,
          { key: name, isPoison: false },
          options as { every: number },
        );
    }
  });
}

/** As an operator does at last: no schedule stays paused. */
export async function resumeSchedules({ schedules }: Scheduling, node: SimNode): Promise<void> {
  for (const { name } of schedules) await untilDone(node, () => node.mill.schedules.resume(name));
}

async function unlessRefused(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
}
