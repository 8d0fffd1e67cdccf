/**
 * Hides the fields that a job's definition names as secret, wherever a value is shown: lists, logs, events, pages.
 *
 * The value that runs keeps its fields; what is shown is a copy. Always true: the given value is never changed, a
 * matched field is hidden whatever its type, and no path reaches a prototype. Parts without a match are shared with the
 * original, so treat the copy as read-only. Map values match by their key; items of a Set match `*`; keys of Maps are
 * never hidden.
 */
import { anyField, type FieldPath, parseFieldPaths } from "./field-path.ts";

export const redacted = "[redacted]";

type Redaction = (value: unknown) => unknown;

export function redact(value: unknown, paths: readonly string[]): unknown {
  return compileRedaction(paths)(value);
}

export function compileRedaction(paths: readonly string[]): Redaction {
  const compiled = parseFieldPaths(paths);
  return (value) => compiled.reduce((shown, path) => hide(shown, path, 0), value);
}

function hide(value: unknown, path: FieldPath, depth: number): unknown {
  const part = path[depth];
  if (part === undefined) return redacted;
  if (typeof value !== "object" || value === null) return value;
  // A path that leads into bytes hides them all.
  if (ArrayBuffer.isView(value)) return redacted;
  if (value instanceof Map) return hideInMap(value, path, depth);
  if (value instanceof Set) {
    return part === anyField ? new Set([...value].map((item) => hide(item, path, depth + 1))) : value;
  }
  const keys = part === anyField ? Object.keys(value) : Object.hasOwn(value, part) ? [part] : [];
  let copy: Record<string, unknown> | undefined;
  for (const key of keys) {
    const item = (value as Record<string, unknown>)[key];
    const shown = hide(item, path, depth + 1);
    if (shown === item) continue;
    // Spreading defines properties, so an own `__proto__` stays one and can then be assigned like any other.
    copy ??= (Array.isArray(value) ? value.slice() : { ...value }) as Record<string, unknown>;
    copy[key] = shown;
  }
  return copy ?? value;
}

function hideInMap(map: ReadonlyMap<unknown, unknown>, path: FieldPath, depth: number): unknown {
  const part = path[depth];
  return new Map(
    [...map].map(([key, item]) => [
      key,
      part === anyField || isKey(key, part) ? hide(item, path, depth + 1) : item,
    ]),
  );
}

function isKey(key: unknown, part: string | undefined): boolean {
  return (
    (typeof key === "string" || typeof key === "number" || typeof key === "bigint") && String(key) === part
  );
}
