/**
 * What makes a job durable: its definition names the signals that its runs take and the version of its handler. The
 * handler of such a job gets `step`; other jobs have neither and pay nothing.
 */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { checkBoolean, checkOptions, checkWhole } from "../../model/option.ts";
import { isStandardSchema } from "../submit/standard-schema.ts";
import type { AnySchema, SchemaInput, SchemaOutput } from "../submit/standard-schema.ts";

/** The schema of each signal, by name. */
export type SignalSchemas = Readonly<Record<string, AnySchema>>;

/** What a handler gets of each signal. */
type SignalsRead<Schemas extends SignalSchemas> = {
  readonly [Name in keyof Schemas]: SchemaOutput<Schemas[Name]>;
};
/** What a sender gives of each signal. */
type SignalsSent<Schemas extends SignalSchemas> = {
  readonly [Name in keyof Schemas]: SchemaInput<Schemas[Name]>;
};

export interface DurableOptions {
  /** The version of the handler's code. A run keeps the one that it began with. */
  version: number;
  /** For handlers that await plain I/O between their steps: how long a run is quiet before it is suspended. */
  idle?: Duration;
  /** Emits the event `step` whenever a step or a wait of a run has ended, or its code has failed. */
  events?: boolean;
}

/** The options once checked. */
export interface ReadDurable {
  readonly version: number;
  readonly idleMs: number;
  readonly hasEvents: boolean;
}

/** What a durable definition has beside all that any definition has. */
export interface DurablePart<Schemas extends SignalSchemas = SignalSchemas> {
  readonly signals: Schemas;
  readonly durable: ReadDurable;
}

export type SignalsOf<Job> = Job extends DurablePart<infer Schemas> ? SignalsRead<Schemas> : never;
export type SentOf<Job> = Job extends DurablePart<infer Schemas> ? SignalsSent<Schemas> : never;

export const versionMax = 1_000_000;
const signalsMax = 100;

/** @returns null for a job that is not durable. */
export function readDurable(
  { durable, signals }: { readonly durable?: unknown; readonly signals?: unknown },
  what: string,
): DurablePart | null {
  if (durable === undefined) {
    if (signals === undefined) return null;
    throw new MillraceError(
      "invalid-option",
      `${what}: only a durable job has signals; add durable: { version: 1 }.`,
    );
  }
  const { version, idle, events } = checkOptions(durable, `${what}: durable`, ["version", "idle", "events"]);
  return {
    signals: readSignals(signals ?? {}, `${what}: signals`),
    durable: {
      version: checkWhole(version, `${what}: durable.version`, 1, versionMax),
      idleMs: idle === undefined ? 0 : durationMs(idle, `${what}: durable.idle`),
      hasEvents: events === undefined ? false : checkBoolean(events, `${what}: durable.events`),
    },
  };
}

function readSignals(signals: unknown, what: string): SignalSchemas {
  if (typeof signals !== "object" || signals === null || Array.isArray(signals))
    throw new MillraceError("invalid-option", `${what} must be an object of schemas, one for each name.`);
  const entries = Object.entries(signals);
  if (entries.length > signalsMax)
    throw new MillraceError("invalid-option", `${what}: a job has at most ${signalsMax} signals.`);
  for (const [name, schema] of entries) {
    checkName(name, `${what}: a name`);
    if (!isStandardSchema(schema))
      throw new MillraceError(
        "invalid-option",
        `${what}.${name} must be a Standard Schema (zod, valibot, arktype and others are).`,
      );
  }
  return Object.freeze(Object.fromEntries(entries)) as SignalSchemas;
}
