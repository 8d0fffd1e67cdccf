/** JSON Merge Patch (RFC 7386): what an object says replaces, null deletes, objects are merged. */

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Takes JSON, and changes neither of the two. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch))
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  // Defines each key, so that one called __proto__ is a key like any other.
  return Object.fromEntries(merged);
}
