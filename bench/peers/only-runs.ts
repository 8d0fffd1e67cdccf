/** A peer that has durable runs and no jobs without them. */
import type { BenchRuns, Contender } from "../measure/contender.ts";

interface RunsPeer {
  readonly open: (concurrency: number) => Promise<BenchRuns>;
  readonly close: () => Promise<unknown>;
}

export function onlyRuns({ open, close }: RunsPeer): Contender {
  const refuse = (): never => {
    throw new Error("This system is measured with durable runs only.");
  };
  return {
    durability: "strict",
    storeCalls: 0,
    enqueue: refuse,
    enqueueMany: refuse,
    work: refuse,
    countFinished: refuse,
    finishAll: refuse,
    openRuns: open,
    close,
  };
}
