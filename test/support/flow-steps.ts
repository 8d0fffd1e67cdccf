/** Jobs for tests of flows: steps that return what they are given, fail, or hold until they are let go. */
import type { Millrace } from "../../src/client/millrace.ts";
import type { FlowRun } from "../../src/client/flows/flows.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import type { SubmitFlowOptions } from "../../src/engine/flows/submit-options.ts";
import { handler } from "../../src/worker/handler.ts";
import type { Worker } from "../../src/worker/worker.ts";
import type { WorkerOptions } from "../../src/worker/worker-settings.ts";
import type { VirtualMill } from "./virtual/virtual-mill.ts";

/** Returns its input. One called "fail" fails, one called "hold" waits until it is let go or aborted. */
export const step = job<string, string>("step", { retry: { attempts: 1 } });
/** Joins what it is given. */
export const join = job<{ parts: readonly string[] }, string>("join", { retry: { attempts: 1 } });

export class Steps {
  /** The inputs in the order of their starts. */
  readonly ran: string[] = [];
  /** How many ran at once at most. */
  most = 0;
  /** Inputs that fail. */
  readonly failing = new Set(["fail"]);
  readonly #held: (() => void)[] = [];
  #running = 0;

  work(mill: Millrace, options: WorkerOptions = { concurrency: 50 }): Promise<Worker> {
    return mill.work(
      [
        handler(step, async ({ input, signal }) => {
          this.ran.push(input);
          this.#running += 1;
          this.most = Math.max(this.most, this.#running);
          try {
            if (input === "hold") await this.#hold(signal);
            await Promise.resolve();
            if (this.failing.has(input)) throw new Error(`${input} does not work`);
            return input;
          } finally {
            this.#running -= 1;
          }
        }),
        handler(join, ({ input }) => {
          this.ran.push("join");
          return Promise.resolve(input.parts.join("+"));
        }),
      ],
      options,
    );
  }

  letGo(): void {
    for (const go of this.#held.splice(0)) go();
  }

  #hold(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#held.push(resolve);
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
  }
}

/** The states of the nodes, by their names. */
export async function statesOf(run: FlowRun): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries((await run.nodes()).map(({ name, state }) => [name, state]));
}

/** Flows on a virtual mill, with a worker for their steps. */
export function flowsOn(v: VirtualMill): {
  begin: (given: Flow, options?: SubmitFlowOptions) => Promise<[FlowRun, Steps]>;
  /** The state in which it ends. */
  ended: (run: FlowRun) => Promise<string>;
  toEnd: (given: Flow, options?: SubmitFlowOptions) => Promise<EndedFlow>;
} {
  const begin = async (given: Flow, options: SubmitFlowOptions = {}): Promise<[FlowRun, Steps]> => {
    const steps = new Steps();
    await v.run(steps.work(v.mill));
    return [await v.run(v.mill.submit(given, options)), steps];
  };
  const ended = async (run: FlowRun): Promise<string> => {
    await v.run(run.result().catch(() => undefined));
    return (await v.run(run.view())).state;
  };
  const toEnd = async (given: Flow, options?: SubmitFlowOptions): Promise<EndedFlow> => {
    const [run, steps] = await begin(given, options);
    const state = await ended(run);
    return { state, nodes: await v.run(statesOf(run)), ran: steps.ran, run };
  };
  return { begin, ended, toEnd };
}

interface EndedFlow {
  readonly state: string;
  readonly nodes: Readonly<Record<string, string>>;
  readonly ran: readonly string[];
  readonly run: FlowRun;
}
