/**
 * A telemetry bridge of the user's own may throw: before it has called the function that it was given, after it, or
 * while it hears of an end. The work goes on: the function is called once in any case, and its own answer or error is
 * what counts.
 */
import type { SubmitAnswer } from "../../store/operations.ts";
import type { RepeatedLines } from "../log/repeated-line.ts";
import type { Telemetry } from "./telemetry.ts";

export function guardedTelemetry(
  telemetry: Telemetry,
  { repeated }: { readonly repeated: RepeatedLines },
): Telemetry {
  const failed = (error: unknown): void =>
    repeated.say("warn", "the telemetry of this process throws", { error });
  const quietly = <Value>(call: () => Value, otherwise: Value): Value => {
    try {
      return call();
    } catch (error) {
      failed(error);
      return otherwise;
    }
  };

  const around = <Value>(
    call: () => Value | Promise<Value>,
    observe: (call: () => Value | Promise<Value>) => Value | Promise<Value>,
  ): Value | Promise<Value> => {
    const seen = new CalledOnce(call);
    const afterThrow = (error: unknown): Value | Promise<Value> => {
      if (!seen.hasThrown(error)) failed(error);
      return seen.call();
    };
    try {
      const answer = observe(() => seen.call());
      return answer instanceof Promise ? answer.catch(afterThrow) : answer;
    } catch (error) {
      return afterThrow(error);
    }
  };

  return {
    submit: async (unit, send) => {
      let sent: Promise<SubmitAnswer> | null = null;
      try {
        return await telemetry.submit(unit, (traced) => (sent ??= send(traced)));
      } catch (error) {
        const answer: SubmitAnswer = await (sent ?? send(unit));
        failed(error);
        return answer;
      }
    },
    followUp: (job, attempt) => quietly(() => telemetry.followUp(job, attempt), job),
    run: (attempts, isBatch, call) => around(call, (once) => telemetry.run(attempts, isBatch, once)),
    ...(telemetry.step === undefined
      ? {}
      : {
          step: async (attempt, running, call) =>
            around(call, (once) => telemetry.step?.(attempt, running, async () => once()) as never),
        }),
    ...(telemetry.noted === undefined
      ? {}
      : { noted: (attempt, note) => quietly(() => telemetry.noted?.(attempt, note), undefined) }),
    ended: (attempt) => quietly(() => telemetry.ended(attempt), undefined),
  };
}

/** A function that may throw or reject, and is called at most once however often it is asked for its answer. */
class CalledOnce<Value> {
  readonly #call: () => Value | Promise<Value>;
  #isCalled = false;
  #answer: { readonly value: Value | Promise<Value> } | null = null;
  #error: unknown = null;

  constructor(call: () => Value | Promise<Value>) {
    this.#call = call;
  }

  call(): Value | Promise<Value> {
    if (!this.#isCalled) {
      this.#isCalled = true;
      try {
        const value = this.#call();
        this.#answer = { value };
        if (value instanceof Promise) value.catch((error: unknown) => (this.#error = error));
      } catch (error) {
        this.#error = error;
      }
    }
    if (this.#answer === null) throw this.#error;
    return this.#answer.value;
  }

  hasThrown(error: unknown): boolean {
    return this.#isCalled && this.#error === error;
  }
}
