/**
 * What a run records of values, errors and signals: payloads as for inputs and results, errors as they are sent to a
 * sandbox, with their control outcomes.
 */
import { isDeepStrictEqual } from "node:util";
import type { Needs } from "../../engine/services.ts";
import type { SignalSchemas } from "../../engine/durable/durable-definition.ts";
import { checkSchema } from "../../engine/submit/standard-schema.ts";
import type { StandardSchema } from "../../engine/submit/standard-schema.ts";
import { isMillraceError } from "../../model/error.ts";
import { receiveThrown, sendThrown } from "../sandbox/sent-error.ts";
import type { SentError } from "../sandbox/sent-error.ts";
import type { RunCodec } from "./run-settings.ts";

export function createRunCodec({ coder }: Needs<"coder">, signals: SignalSchemas): RunCodec {
  const encode = (value: unknown, what: string): string | null =>
    value === undefined ? null : coder.encode(value, what);
  return {
    encode: (value) => encode(value, "result of a step"),
    decode: (text) => (text === null ? undefined : coder.decode(text)),
    encodeError: (error) => JSON.stringify(sendThrown(error)),
    decodeError: (text) => receiveThrown(JSON.parse(text) as SentError),
    readSignal(name, text) {
      const schema = (signals as Readonly<Record<string, StandardSchema>>)[name];
      if (schema === undefined) return { refused: "the job takes no such signal any more" };
      try {
        const sent = text === null ? undefined : coder.decode(text);
        const value = checkSchema(schema, sent, { code: "invalid-input", what: "The signal" });
        if (value instanceof Promise) {
          value.catch(() => undefined);
          return { refused: "the schema of a signal must answer at once" };
        }
        return { value, text: isDeepStrictEqual(value, sent) ? text : encode(value, "signal") };
      } catch (error) {
        // Another worker may have the key.
        if (isMillraceError(error, "unknown-key")) throw error;
        return { refused: error instanceof Error ? error.message : String(error) };
      }
    },
  };
}
