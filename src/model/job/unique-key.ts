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
 *  skip         answer its id                                                    keep
 *  replace      while it has not started, the new job's content and due time     replace
 *               take the place of the holder's; else skip
 *  debounce     as replace, with a due time that each enqueue moves on           replace
 *  once-per     skip, with a duration as the window                              keep
 *
 * The stored key is the key, its length, and the scope, so keys of different scopes never collide. The key comes first,
 * so that a text in braces inside it chooses the partition (placement.ts).
 */
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { MillraceError } from "../error.ts";
import type { LiveState } from "./job-state.ts";
import { checkName } from "../name.ts";
import { checkOptions } from "../option.ts";

/**
 * A holder in one of these states that was never claimed can still be replaced. Blocked jobs are members of flows, and
 * no member is replaced: its tags, its meta and its place once freed belong to its flow.
 */
export const unstartedStates = ["scheduled", "ready"] as const satisfies readonly LiveState[];

export type UniqueHold = "started" | "end" | number;
export type OnHeld = "keep" | "replace";
export type UniqueScope = "job" | "queue" | "global";

/** The unique key of a job as a store gets it, with its scope. */
export interface Unique {
  readonly key: string;
  readonly hold: UniqueHold;
  readonly onHeld: OnHeld;
}

/** @typeParam Field the paths that the input has. */
export interface UniqueOptions<Field extends string = string> {
  /** The key itself, or `fields` of the input to compute it from. */
  key?: string;
  fields?: readonly Field[];
  /**
   * Among which jobs the key is unique: jobs of the same name (default), of the same queue, or all jobs of the store.
   * With the wider two, another kind of job may hold the key; the handle then refuses to return its result.
   */
  scope?: UniqueScope;
  /** How long the job holds the key: until it ends (default), only while it is queued, or for a duration. */
  window?: "unfinished" | "queued" | Duration;
  /**
   * What an enqueue does if the key is held: `skip` (default) answers the holder; `replace` gives it the new input,
   * options and time while it has not started; `debounce` is the same with a delay, so that the last of a burst runs
   * once, that long after it; `once-per` skips for the duration of the window.
   */
  policy?: "skip" | "replace" | "debounce" | "once-per";
}

/** The parts that do not depend on the job's input. The caller digests the `fields` of the input. */
export interface UniquePlan {
  readonly key: string | null;
  readonly fields: readonly string[] | null;
  readonly scope: UniqueScope;
  readonly hold: UniqueHold;
  readonly onHeld: OnHeld;
  /** A debounce needs a due time that it can move. */
  readonly needsDelay: boolean;
}

const scopes: readonly unknown[] = ["job", "queue", "global"] satisfies UniqueScope[];

export function readUnique(options: unknown): UniquePlan {
  if (typeof options === "string") {
    return {
      key: checkName(options, "unique key"),
      fields: null,
      scope: "job",
      hold: "end",
      onHeld: "keep",
      needsDelay: false,
    };
  }
  const given = checkOptions(options, "unique", ["key", "fields", "scope", "window", "policy"]);
  const { key, fields, scope = "job", policy = "skip" } = given;
  if ((key === undefined) === (fields === undefined)) {
    throw new MillraceError("invalid-option", "unique: give either key or fields.");
  }
  if (!scopes.includes(scope))
    throw new MillraceError("invalid-option", 'unique.scope must be "job", "queue" or "global".');
  return {
    key: key === undefined ? null : checkName(key, "unique.key"),
    fields: fields === undefined ? null : readFields(fields),
    scope: scope as UniqueScope,
    hold: readHold(given["window"], policy),
    onHeld: readOnHeld(policy),
    needsDelay: policy === "debounce",
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
  if (policy === "once-per" && (window === undefined || window === "queued" || window === "unfinished")) {
    throw new MillraceError(
      "invalid-option",
      'unique: the once-per policy needs a duration as its window, such as "1m".',
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
    case "once-per":
      return "keep";
    case "replace":
    case "debounce":
      return "replace";
    default:
      throw new MillraceError("invalid-option", "unique.policy must be skip, replace, debounce or once-per.");
  }
}

const scopeLetters = { job: "j", queue: "q", global: "g" } as const;

/** The length of the key separates key and scope, whatever they contain. */
export function scopedKey(
  { scope, key }: { readonly scope: UniqueScope; readonly key: string },
  { queue, name }: { readonly queue: string; readonly name: string },
): string {
  const within = { job: name, queue, global: "" }[scope];
  return `${scopeLetters[scope]}${key.length}:${key}:${within}`;
}

/** The key as it was given; a text of another form is returned unchanged. */
export function keyOfScoped(scoped: string): string {
  const [head, length] = /^[jqg](\d{1,4}):/.exec(scoped) ?? [];
  return head === undefined ? scoped : scoped.slice(head.length, head.length + Number(length));
}
