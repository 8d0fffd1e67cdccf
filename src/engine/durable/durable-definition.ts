/**
 * The types of a durable job: its definition names the signals that its runs take and the version of its handler. The
 * handler of such a job gets `step`; other jobs have neither and pay nothing.
 */
import type { Duration } from "../../model/duration.ts";
import type { JobDefinition, JobOptions } from "../submit/job-definition.ts";
import type { AnySchema, SchemaInput, SchemaOutput } from "../submit/standard-schema.ts";

/** The schema of each signal, by name. */
export type SignalSchemas = Readonly<Record<string, AnySchema>>;

/** What a handler gets of each signal. */
export type SignalsRead<Schemas extends SignalSchemas> = {
  readonly [Name in keyof Schemas]: SchemaOutput<Schemas[Name]>;
};
/** What a sender gives of each signal. */
export type SignalsSent<Schemas extends SignalSchemas> = {
  readonly [Name in keyof Schemas]: SchemaInput<Schemas[Name]>;
};

export interface DurableOptions {
  /** The version of the handler's code. A run keeps the one that it began with. */
  version: number;
  /** For handlers that await plain I/O between their steps: how long a run is quiet before it is suspended. */
  idle?: Duration;
}

type Read<Schema> = Schema extends AnySchema ? SchemaOutput<Schema> : unknown;
type Written<Schema> = Schema extends AnySchema ? SchemaInput<Schema> : unknown;

/** A definition whose runs are durable. */
export interface DurableJobDefinition<
  In = unknown,
  Out = In,
  Result = unknown,
  Returned = Result,
  Schemas extends SignalSchemas = SignalSchemas,
> extends JobDefinition<In, Out, Result, Returned> {
  readonly signals: Schemas;
  readonly durable: DurableOptions;
}

/** As `job` will be typed: a definition with `durable` has signals, one without it has none. */
export interface DefineDurableJob {
  <
    Input extends AnySchema,
    Result extends AnySchema | undefined = undefined,
    const Schemas extends SignalSchemas = Record<never, never>,
  >(
    name: string,
    options: Omit<JobOptions<SchemaInput<Input>>, "input" | "result"> & {
      input: Input;
      result?: Result;
      signals?: Schemas;
      durable: DurableOptions;
    },
  ): DurableJobDefinition<SchemaInput<Input>, SchemaOutput<Input>, Read<Result>, Written<Result>, Schemas>;
}

// oxlint-disable-next-line no-explicit-any -- any durable definition, whichever its types are
type AnyDurable = DurableJobDefinition<any, any, any, any, any>;

export type SignalsOf<Job extends AnyDurable> =
  Job extends DurableJobDefinition<infer _In, infer _Out, infer _Result, infer _Returned, infer Schemas>
    ? SignalsRead<Schemas>
    : never;
export type SentOf<Job extends AnyDurable> =
  Job extends DurableJobDefinition<infer _In, infer _Out, infer _Result, infer _Returned, infer Schemas>
    ? SignalsSent<Schemas>
    : never;
