/**
 * The limits of a caller's wait for one call: `timeout` and `signal`. The call itself goes on, because the store may
 * have applied it already. So a write that its caller gave up has an unknown outcome, and its error names the ids that
 * it may have made.
 */
import { durationMs, durationText } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkOptions } from "../../model/option.ts";
import type { Platform } from "../../platform/platform.ts";

export interface CallOptions {
  /** After this time the caller gives up: a read ends with `wait-timeout`, a write with `outcome-unknown`. */
  timeout?: Duration;
  /** If it fires, the call ends with `aborted`. */
  signal?: AbortSignal;
}

export const callKeys = ["timeout", "signal"] as const;

/** For a call without other options. A call with more checks them together with `callKeys`. */
export function checkCallOptions(options: CallOptions | undefined, what: string): void {
  if (options !== undefined) checkOptions(options, what, callKeys);
}

export interface LimitedCall<Answer> {
  readonly platform: Platform;
  /** The name of the call, for people. */
  readonly what: string;
  readonly isWrite: boolean;
  /** The ids that the call mints, if it mints any. */
  readonly ids?: readonly string[];
  /** When the caller gives up without a `timeout`, or before it; left out for never. */
  readonly giveUp?: { readonly afterMs: number; readonly late: () => MillraceError };
  /** `isOver` returns true once the caller has given up, so that a call of several steps stops. */
  readonly run: (isOver: () => boolean) => Promise<Answer>;
}

const never = (): boolean => false;

export function withinLimit<Answer>(
  limit: CallOptions | undefined,
  call: LimitedCall<Answer>,
): Promise<Answer> {
  if (limit !== undefined && (typeof limit !== "object" || limit === null))
    throw new MillraceError("invalid-option", `${call.what}: the options must be an object.`);
  const { platform, what, isWrite, ids, giveUp } = call;
  const { signal, timeout } = limit ?? {};
  if (timeout === undefined && signal === undefined && giveUp === undefined) return call.run(never);
  return new Promise((resolve, reject) => {
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw new MillraceError("invalid-option", `${what}: signal must be an AbortSignal.`);
    const timeoutMs = timeout === undefined ? null : durationMs(timeout, `${what}: timeout`);
    const cause = (): { cause: unknown } => ({ cause: signal?.reason });
    if (signal?.aborted === true)
      throw new MillraceError("aborted", `${what} was aborted before it began.`, cause());
    let isOver = false;
    const outcome = {
      ...(isWrite ? { outcome: "unknown" as const } : {}),
      ...(ids === undefined ? {} : { ids }),
    };
    const may = isWrite ? "; it may still happen" : "";
    const end = (settle: () => void): void => {
      if (isOver) return;
      isOver = true;
      timer?.cancel();
      givingUp?.cancel();
      signal?.removeEventListener("abort", aborted);
      settle();
    };
    const aborted = (): void =>
      end(() =>
        reject(new MillraceError("aborted", `${what} was aborted${may}.`, { ...cause(), ...outcome })),
      );
    const late = (): void => {
      const code = isWrite ? "outcome-unknown" : "wait-timeout";
      const message = `${what} was not answered within ${durationText(timeoutMs ?? 0)}${may}.`;
      end(() => reject(new MillraceError(code, message, outcome)));
    };
    const timer = timeoutMs === null ? null : platform.setTimer(timeoutMs, late);
    const givingUp =
      giveUp === undefined
        ? null
        : platform.setTimer(giveUp.afterMs, () => end(() => reject(giveUp.late())), false);
    signal?.addEventListener("abort", aborted, { once: true });
    call
      .run(() => isOver)
      .then(
        (answer) => end(() => resolve(answer)),
        (error: unknown) => end(() => reject(error)),
      );
  });
}
