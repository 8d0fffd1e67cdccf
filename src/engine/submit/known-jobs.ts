/**
 * The schemas of the definitions that this process has used, by the name of the job. A call in such a process is
 * refused at once if an input or a signal has the wrong shape; elsewhere the worker or the run refuses it later.
 */
import type { AnyJob } from "./job-definition.ts";
import type { DurablePart, SignalSchemas } from "../durable/durable-definition.ts";
import type { StandardSchema } from "./standard-schema.ts";

export class KnownJobs {
  readonly #inputs = new Map<string, StandardSchema>();
  readonly #signals = new Map<string, SignalSchemas>();

  /** The definition that is learned last counts; one without a schema takes none away. */
  learn(definition: AnyJob): void {
    const { name, inputSchema, durable } = definition;
    if (inputSchema !== null) this.#inputs.set(name, inputSchema);
    if (durable !== null) this.#signals.set(name, (definition as AnyJob & DurablePart).signals);
  }

  inputOf(job: string): StandardSchema | null {
    return this.#inputs.get(job) ?? null;
  }

  signalsOf(job: string): SignalSchemas | undefined {
    return this.#signals.get(job);
  }

  /** The signals of the jobs that take one of this name. */
  takingSignal(name: string): readonly SignalSchemas[] {
    return [...this.#signals.values()].filter((schemas) => Object.hasOwn(schemas, name));
  }
}
