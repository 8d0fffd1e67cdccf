/**
 * The payloads of an attempt: the stored input is decoded and checked before the handler is called, and its result is
 * checked and encoded afterwards. If the definition's schema refuses a payload, or the codec cannot read or write it,
 * the job fails for good: another attempt would get the same payload, and its side effects would happen again. There
 * are two exceptions, for fleets with different workers: a key that is missing here, and jobs with `onInvalidInput:
 * "retry"`.
 */
import type { JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import { checkSchema } from "../../engine/submit/standard-schema.ts";
import { isMillraceError } from "../../model/error.ts";
import type { FlowMeta } from "../../model/flow/flow-meta.ts";
import type { Attempt } from "./attempt.ts";
import { completeInput, flowOf } from "./flow-input.ts";

type PayloadsNeeds = Needs<"coder" | "reads">;

type Refusal = "invalid-input" | "invalid-result" | "key-missing";

/**
 * Thrown when the job's own payload was refused. It is a class of its own because the code of the error is not enough:
 * the handler's own enqueue may be refused with the same code, and that is an ordinary failed attempt.
 */
export class RefusedPayload {
  readonly #reason: Refusal;
  readonly error: unknown;

  constructor(reason: Refusal, error: unknown) {
    this.#reason = reason;
    this.error = error;
  }

  get reason(): Refusal {
    return this.#reason;
  }

  /** Tests the private field, because `instanceof` would call the traps of a thrown Proxy, which may throw. */
  static is(thrown: unknown): thrown is RefusedPayload {
    return typeof thrown === "object" && thrown !== null && #reason in thrown;
  }
}

/** The error that is shown to people: that of the refusal, if a payload was refused. */
export function shownError(thrown: unknown): unknown {
  return RefusedPayload.is(thrown) ? thrown.error : thrown;
}

/** @returns the handler's input; a promise only if the schema returns one. */
export function decodeInput(needs: PayloadsNeeds, attempt: Attempt, { inputSchema }: JobDefinition): unknown {
  try {
    const input = needs.coder.decode(attempt.job.input);
    const flow = attempt.isMember ? flowOf(attempt) : null;
    if (flow?.refs !== undefined) return completeAndCheck(needs, attempt, input, flow, inputSchema);
    return flow?.expands === undefined ? checkInput(inputSchema, input) : input;
  } catch (error) {
    return refuseInput(error);
  }
}

function checkInput(schema: JobDefinition["inputSchema"], input: unknown): unknown {
  if (schema === null) return input;
  const checked = checkSchema(schema, input, { code: "invalid-input", what: "The input" });
  return checked instanceof Promise ? checked.catch(refuseInput) : checked;
}

/** For a member whose input refers to results. The list of a map is not checked, because it is no input of its job. */
async function completeAndCheck(
  needs: PayloadsNeeds,
  attempt: Attempt,
  input: unknown,
  { refs = [], expands }: FlowMeta,
  schema: JobDefinition["inputSchema"],
): Promise<unknown> {
  const whole = await completeInput(needs, attempt, input, refs);
  if (expands !== undefined) return whole;
  try {
    return await checkInput(schema, whole);
  } catch (error) {
    return RefusedPayload.is(error) ? Promise.reject(error) : refuseInput(error);
  }
}

/** @returns the stored form of the result, null for none; a promise only if the schema returns one. */
export function encodeResult(
  needs: Needs<"coder">,
  attempt: Attempt,
  { resultSchema }: JobDefinition,
  value: unknown,
): string | null | Promise<string | null> {
  if (resultSchema === null) return encodeChecked(needs, attempt, value);
  let checked: unknown;
  try {
    checked = checkSchema(resultSchema, value, { code: "invalid-result", what: "The result" });
  } catch (error) {
    return refuseResult(error);
  }
  return checked instanceof Promise
    ? checked.then((result) => encodeChecked(needs, attempt, result), refuseResult)
    : encodeChecked(needs, attempt, checked);
}

function encodeChecked(needs: Needs<"coder">, { policy }: Attempt, value: unknown): string | null {
  if (value === undefined || !policy.keepsResult) return null;
  try {
    return needs.coder.encode(value, "result");
  } catch (error) {
    return refuseResult(error);
  }
}

function refuseInput(error: unknown): never {
  throw new RefusedPayload(isMillraceError(error, "unknown-key") ? "key-missing" : "invalid-input", error);
}

function refuseResult(error: unknown): never {
  throw new RefusedPayload("invalid-result", error);
}
