/**
 * The signals of the durable jobs whose definitions this process has used, by the name of the job. A sender in such a
 * process learns at the call that a value has the wrong shape; else the run refuses it later.
 */
import type { AnyJob } from "../submit/job-definition.ts";
import type { DurablePart, SignalSchemas } from "./durable-definition.ts";

export class KnownSignals {
  readonly #byJob = new Map<string, SignalSchemas>();

  learn(definition: AnyJob): void {
    if (definition.durable !== null)
      this.#byJob.set(definition.name, (definition as AnyJob & DurablePart).signals);
  }

  of(job: string): SignalSchemas | undefined {
    return this.#byJob.get(job);
  }

  /** Those of the jobs that take a signal of this name. */
  taking(name: string): readonly SignalSchemas[] {
    return [...this.#byJob.values()].filter((schemas) => Object.hasOwn(schemas, name));
  }
}
