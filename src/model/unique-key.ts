/**
 * Unique keys: at most one live job per key and scope. The model says how long the key is held and what a second submit
 * does (rule R8); a store applies exactly that.
 *
 *  window       held until                       said as
 *  queued       the first claim                  "started"   (freed by the claim, not taken again by a retry)
 *  unfinished   the job's end                    "end"
 *  a duration   that long after the submit       a number of milliseconds (may outlive the job)
 *
 *  policy       on a live holder
 *  skip         answer its id                                        keep
 *  replace      replace it while it has not started, else skip       replace
 *  debounce     move its due time while it has not started           reschedule
 *  throttle     skip, with a duration as the window                  keep
 */
import { durationMs } from "./duration.ts";
import type { Duration } from "./duration.ts";
import { MillraceError } from "./error.ts";
import type { LiveState } from "./job-state.ts";
import { checkName } from "./name.ts";
import { checkOptions } from "./option.ts";

/** A holder that no worker has ever taken, in one of these states, can still be replaced or rescheduled. */
export const unstartedStates = ["blocked", "scheduled", "ready"] as const satisfies readonly LiveState[];

export type UniqueHold = "started" | "end" | number;
export type OnHeld = "keep" | "replace" | "reschedule";

/** The unique key of a job as a store gets it. The scope is part of the key. */
export interface Unique {
  readonly key: string;
  readonly hold: UniqueHold;
  readonly onHeld: OnHeld;
}

export interface UniqueOptions {
  /** The key itself, or `fields` of the input to compute it from. */
  key?: string;
  fields?: readonly string[];
  /** Whether the key is unique within the job's queue (default) or over the whole store. */
  scope?: "queue" | "global";
  /** How long the job holds the key: until it ends (default), only while it is queued, or for a duration. */
  window?: "unfinished" | "queued" | Duration;
  policy?: "skip" | "replace" | "debounce" | "throttle";
}

/** The parts that do not depend on the job's input; the caller digests what `fields` pick from the input. */
export interface UniquePlan {
  readonly key: string | null;
  readonly fields: readonly string[] | null;
  readonly scope: "queue" | "global";
  readonly hold: UniqueHold;
  readonly onHeld: OnHeld;
}

export function readUnique(options: unknown): UniquePlan {
  if (typeof options === "string") {
    return {
      key: checkName(options, "unique key"),
      fields: null,
      scope: "queue",
      hold: "end",
      onHeld: "keep",
    };
  }
  const given = checkOptions(options, "unique", ["key", "fields", "scope", "window", "policy"]);
  const { key, fields, scope = "queue", policy = "skip" } = given;
  if ((key === undefined) === (fields === undefined)) {
    throw new MillraceError("invalid-option", "unique: give either key or fields.");
  }
  if (scope !== "queue" && scope !== "global")
    throw new MillraceError("invalid-option", 'unique.scope must be "queue" or "global".');
  return {
    key: key === undefined ? null : checkName(key, "unique.key"),
    fields: fields === undefined ? null : readFields(fields),
    scope,
    hold: readHold(given["window"], policy),
    onHeld: readOnHeld(policy),
  };
}

function readFields(fields: unknown): readonly string[] {
  if (!Array.isArray(fields) || fields.length === 0 || fields.length > 32) {
    throw new MillraceError(
      "invalid-option",
      "unique.fields must be a list of 1 to 32 paths into the input.",
    );
  }
  return fields.map((field) => checkName(field, "unique.fields"));
}

function readHold(window: unknown, policy: unknown): UniqueHold {
  if (policy === "throttle" && (window === undefined || window === "queued" || window === "unfinished")) {
    throw new MillraceError(
      "invalid-option",
      'unique: the throttle policy needs a duration as its window, such as "1m".',
    );
  }
  if (window === undefined || window === "unfinished") return "end";
  if (window === "queued") return "started";
  const windowMs = durationMs(window, "unique.window");
  if (windowMs === 0) throw new MillraceError("invalid-duration", "unique.window must be longer than 0.");
  return windowMs;
}

function readOnHeld(policy: unknown): OnHeld {
  switch (policy) {
    case "skip":
    case "throttle":
      return "keep";
    case "replace":
      return "replace";
    case "debounce":
      return "reschedule";
    default:
      throw new MillraceError("invalid-option", "unique.policy must be skip, replace, debounce or throttle.");
  }
}

/** Length-prefixed, so that no queue name can be mistaken for another queue's key. */
export function scopedKey(scope: "queue" | "global", queue: string, key: string): string {
  return scope === "global" ? `g:${key}` : `q${queue.length}:${queue}:${key}`;
}
