/**
 * One seed and the verdict on it, for every store that the simulation runs on; with the seeds that were asked for by
 * the environment.
 */
import { checkHistory, printStory } from "../history/checks/check-history.ts";
import type { Judge } from "../history/judge-by.ts";
import { isKnown } from "./known-bugs.ts";
import { describePlan, drawPlan } from "./plan.ts";
import { runSimulation } from "./run-simulation.ts";
import type { Run, RunOptions } from "./run-simulation.ts";

export interface JudgedRun {
  readonly run: Run;
  /** One line that is enough to see it again; null when every invariant held. */
  readonly failure: string | null;
}

const { MILLRACE_SEED: chosenSeed, MILLRACE_SEEDS: wantedSeeds } = process.env;
const isSeedChosen = chosenSeed !== undefined;
/** Only these seeds: neither the past ones nor what must happen sometimes in the first ones. */
export const areSeedsChosen = isSeedChosen || wantedSeeds?.includes("-") === true;

/**
 * The first N; MILLRACE_SEED=N is that one alone, MILLRACE_SEEDS=N the first N, MILLRACE_SEEDS=A-B those from A
 * to B.
 */
export function seedsToRun(count: number): { readonly from: number; readonly to: number } {
  if (isSeedChosen) return { from: Number(chosenSeed), to: Number(chosenSeed) };
  const [to = count, from = 1] = (wantedSeeds ?? String(count)).split("-").map(Number).toReversed();
  return { from, to };
}

export async function runSeed(
  seed: number,
  options: RunOptions = {},
  judge: Judge = checkHistory,
): Promise<JudgedRun> {
  try {
    const run = await runSimulation(drawPlan(seed), options);
    return { run, failure: report(run, judge) };
  } catch (cause) {
    throw new Error(`seed ${seed} ended the run; replay: ${replayCommand(seed)}`, { cause });
  }
}

const replayCommand = (seed: number): string => `MILLRACE_SEED=${seed} npm test -- test/simulation`;

function report({ plan, evidence }: Run, judge: Judge): string | null {
  const [first, ...more] = judge(evidence).filter((violation) => !isKnown(violation, evidence));
  if (first === undefined) return null;
  const what = `seed ${plan.seed} broke invariant ${first.invariant}: ${first.message}`;
  const line = `${what} (and ${more.length} more; ${describePlan(plan)}); replay: ${replayCommand(plan.seed)}`;
  return isSeedChosen && first.id !== undefined ? `${line}\n${printStory(evidence, first.id)}` : line;
}
