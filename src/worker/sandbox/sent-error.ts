/**
 * Errors and control outcomes between a worker and a sandbox. They are sent as records. On both sides they are Errors
 * with the brand of their kind, so that the code around a handler treats them as if the handler had thrown them here.
 */
import { describeError } from "../../model/job/attempt-log.ts";
import type { ErrorRecord } from "../../model/job/attempt-log.ts";
import type { Due } from "../../model/job/change.ts";
import { durationMaxMs } from "../../model/duration.ts";
import { controlOf, withControl } from "../control.ts";
import type { Control } from "../control.ts";

/** A control outcome as JSON. A limit is sent by its name. */
export type SentControl =
  | { readonly kind: "unrecoverable" }
  | { readonly kind: "retry-after"; readonly due: Due }
  | { readonly kind: "snooze"; readonly delayMs: number }
  | {
      readonly kind: "throttled";
      readonly limit: string;
      /** Left out: the job's own key, if it has one of this limit. Null: the whole limit. */
      readonly key?: string | null;
      readonly due?: Due | null;
    }
  | { readonly kind: "cancel"; readonly reason?: string };

export interface SentError {
  readonly error: ErrorRecord;
  readonly control?: SentControl;
}

export function sendThrown(thrown: unknown): SentError {
  const control = controlOf(thrown);
  const error = describeError(thrown);
  return control === null || control.kind === "suspended"
    ? { error }
    : { error, control: sendControl(control) };
}

function sendControl(control: Exclude<Control, { readonly kind: "suspended" }>): SentControl {
  if (control.kind !== "throttled") return control;
  const { kind, limit, key, due } = control;
  const name = typeof limit === "string" ? limit : limit.name;
  return { kind, limit: name, due, ...(key === undefined ? {} : { key }) };
}

/** An Error like the one that was thrown there. A program in another language may have sent anything. */
export function receiveThrown({ error, control }: Partial<SentError>): Error {
  const received = receiveError(error);
  const read = control === undefined ? null : readControl(control);
  return read === null ? received : withControl(received, read);
}

export function receiveError(record: unknown, depth = 0): Error {
  const { name, message, code, stack, cause } = describeError(record ?? "no error was told");
  const error = new Error(message);
  // The stack of the sender, because a stack of this line would not show where the error came from.
  Object.defineProperty(error, "stack", { value: stack ?? "", configurable: true, writable: true });
  Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  if (code !== undefined) Object.assign(error, { code });
  if (cause !== undefined && depth < 5) error.cause = receiveError(cause, depth + 1);
  return error;
}

/** Null if it is no valid control outcome: the outcome is then an ordinary error. */
function readControl(sent: unknown): Control | null {
  if (typeof sent !== "object" || sent === null) return null;
  const { kind, delayMs, limit, key, due, reason } = sent as Record<string, unknown>;
  switch (kind) {
    case "unrecoverable":
      return { kind };
    case "cancel":
      return { kind, reason: (typeof reason === "string" ? reason : "by-handler").slice(0, 200) };
    case "snooze":
      return isDelay(delayMs) ? { kind, delayMs } : null;
    case "retry-after":
      return isDue(due) ? { kind, due } : null;
    case "throttled":
      if (typeof limit !== "string" || limit === "") return null;
      if (due !== undefined && due !== null && !isDue(due)) return null;
      return {
        kind,
        limit,
        key: typeof key === "string" || key === null ? key : undefined,
        due: isDue(due) ? due : null,
      };
    default:
      return null;
  }
}

function isDelay(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= durationMaxMs;
}

function isDue(value: unknown): value is Due {
  if (typeof value !== "object" || value === null) return false;
  const { inMs, at } = value as Record<string, unknown>;
  return isDelay(inMs) || (typeof at === "number" && Number.isSafeInteger(at) && at >= 0);
}
