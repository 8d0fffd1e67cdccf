/**
 * Equal values make equal texts: this is how unique keys are computed from chosen input fields, and how the input of an
 * enqueue with an own id is compared with the one stored under that id.
 *
 * Canonical text is the tagged JSON form with keys, Map entries and Set items in a fixed order. It distinguishes types
 * (a Date from its string, 1 from "1"), leaves out undefined properties as the codec does, and refuses what the codec
 * refuses. It does not depend on codec, compression or encryption, so a digest stays the same when these change.
 */
import { createHash } from "node:crypto";
import { payloadBytesCeiling } from "./codec.ts";
import { anyField, type FieldPath, parseFieldPaths } from "./field-path.ts";
import { invalidOption } from "../model/option.ts";
import { asRefusal } from "./refusal.ts";
import { TaggedWriter } from "./tagged-json.ts";

const DIGEST_BYTES = 16;

/** 22 characters of base64url: half of a SHA-256, so two texts do not meet by accident. */
export function digestText(text: string): string {
  return createHash("sha256").update(text).digest().toString("base64url", 0, DIGEST_BYTES);
}

/** `what` starts the paths in refusals. */
export function canonicalText(value: unknown, what = "value"): string {
  try {
    return new TaggedWriter({ what, maxBytes: payloadBytesCeiling, sorted: true }).write(value);
  } catch (cause) {
    throw asRefusal(cause, what);
  }
}

export type FieldPick = (value: unknown) => unknown[];

/** One entry per path, in their order. A value that has no such field is refused: its key would be everybody's. */
export function compilePick(paths: readonly string[], what: string): FieldPick {
  const compiled = parseFieldPaths(paths);
  if (compiled.some((path) => path.includes(anyField))) {
    throw invalidOption(`${what}: a path must name one field: * is not possible here.`);
  }
  return (value) =>
    compiled.map((path, index) => {
      const found = fieldAt(value, path);
      if (found !== undefined) return found;
      throw invalidOption(`${what}: the input has no field ${JSON.stringify(paths[index])}.`);
    });
}

function fieldAt(value: unknown, path: FieldPath): unknown {
  let found = value;
  for (const part of path as readonly string[]) {
    if (typeof found !== "object" || found === null) return undefined;
    if (found instanceof Map) found = found.get(part);
    else found = Object.hasOwn(found, part) ? (found as Record<string, unknown>)[part] : undefined;
  }
  return found;
}
