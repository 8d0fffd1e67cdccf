/**
 * What a run records of values, errors and signals: payloads as for inputs and results, errors as they are sent to a
 * sandbox, with their control outcomes.
 */
import type { Needs } from "../../engine/services.ts";
import type { SignalSchemas } from "../../engine/durable/durable-definition.ts";
import { checkSchema } from "../../engine/submit/standard-schema.ts";
import type { StandardSchema } from "../../engine/submit/standard-schema.ts";
import { isMillraceError } from "../../model/error.ts";
import { receiveThrown, sendThrown } from "../sandbox/sent-error.ts";
import type { SentError } from "../sandbox/sent-error.ts";
import type { RunCodec } from "./run-execution.ts";

export function createRunCodec({ coder }: Needs<"coder">, signals: SignalSchemas): RunCodec {
  return {
    encode: (value) => (value === undefined ? null : coder.encode(value, "result of a step")),
    decode: (text) => (text === null ? undefined : coder.decode(text)),
    encodeError: (error) => JSON.stringify(sendThrown(error)),
    decodeError: (text) => receiveThrown(JSON.parse(text) as SentError),
    readSignal(name, text) {
      const schema = (signals as Readonly<Record<string, StandardSchema>>)[name];
      if (schema === undefined) return { refused: "the job takes no such signal any more" };
      try {
        const value = text === null ? undefined : coder.decode(text);
        const read = checkSchema(schema, value, { code: "invalid-input", what: "The signal" });
        if (!(read instanceof Promise)) return { value: read };
        read.catch(() => undefined);
        return { refused: "the schema of a signal must answer at once" };
      } catch (error) {
        // Another worker may have the key.
        if (isMillraceError(error, "unknown-key")) throw error;
        return { refused: error instanceof Error ? error.message : String(error) };
      }
    },
  };
}
