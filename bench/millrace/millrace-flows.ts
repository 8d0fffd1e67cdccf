/** Flows of Millrace for the bench: built anew each time, as an application does. */
import type { Millrace } from "../../src/client/millrace.ts";
import type { JobDefinition } from "../../src/engine/submit/job-definition.ts";
import { flow } from "../../src/engine/flows/flow.ts";
import type { BenchFlows } from "../measure/contender.ts";
import { makeInput } from "../measure/input.ts";
import type { BenchInput } from "../measure/input.ts";

export function openMillraceFlows(
  mill: Millrace,
  benchJob: JobDefinition<BenchInput, BenchInput, void>,
): BenchFlows {
  const idle = { ...makeInput(0) };
  const fanOf = (width: number) => {
    const fan = flow("fan");
    const first = fan.add("first", benchJob, idle);
    const middle = Array.from({ length: width }, (_, at) =>
      fan.add(`n${at}`, benchJob, makeInput(at), { after: first }),
    );
    fan.add("last", benchJob, idle, { after: middle });
    return fan;
  };
  return {
    async chain(nodes) {
      const chain = flow("chain");
      const jobs = Array.from({ length: nodes }, (_, at) => benchJob.with(makeInput(at)));
      chain.chain("step", jobs as [(typeof jobs)[0], ...typeof jobs]);
      await (await mill.submit(chain)).result();
    },
    async fan(width) {
      await (await mill.submit(fanOf(width))).result();
    },
    async race(width) {
      const race = flow("race");
      // The others are due in an hour: what counts is that all of them are found and cancelled.
      const others = Array.from({ length: width - 1 }, (_, at) =>
        benchJob.with(makeInput(at), { delay: "1h" }),
      );
      race.race("first", [benchJob.with(idle), ...others]);
      const run = await mill.submit(race);
      await run.result();
      // The race itself is a node too, and ends behind its winner.
      const winner = (await run.nodes()).find(({ part, state }) => part === null && state === "completed");
      const startMs = winner?.endedAt?.getTime();
      if (startMs === undefined) throw new Error("Nobody has won.");
      for (;;) {
        const nodes = await run.nodes();
        const isOver = nodes.every(({ state }) => state === "completed" || state === "cancelled");
        if (!isOver) continue;
        const cancelled = nodes.filter(({ state }) => state === "cancelled");
        if (cancelled.length !== width - 1)
          throw new Error(`${cancelled.length} of ${width - 1} were cancelled.`);
        return Math.max(...cancelled.map(({ endedAt }) => endedAt?.getTime() ?? 0)) - startMs;
      }
    },
    async submit(nodes) {
      await mill.submit(fanOf(nodes - 2));
    },
    close: () => Promise.resolve(),
  };
}
