/**
 * Paths to fields of a value, as options name them: `card.number`, `items.*.secret`, `items.0.sku`.
 *
 * A dot separates, `*` stands for any key or index, and a backslash takes the next character as it is, so the key `a.b`
 * is `a\.b`. Brackets are refused unless escaped: `items[*].secret` would match nothing, and a redaction that matches
 * nothing leaks. Only own properties count, so no path reaches a prototype.
 */
import { invalidOption } from "../model/option.ts";

export const anyField: unique symbol = Symbol("any key or index");

export type FieldPath = readonly (string | typeof anyField)[];

/**
 * The paths that name one field of a value, as a type: `"to"`, `"card.number"`, `` `items.${number}.sku` ``. Of a value
 * whose type says nothing, and below a depth that no reader follows, every text. With `"*"` for `Wild`, where a path
 * may stand for many fields, also `items.*.sku`.
 */
export type FieldPathOf<
  Value,
  Wild extends string = never,
  Depth extends readonly unknown[] = readonly [1, 1, 1, 1],
> = 0 extends 1 & Value
  ? string
  : unknown extends Value
    ? string
    : Value extends Leaf
      ? never
      : Value extends ReadonlyMap<unknown, unknown>
        ? string
        : Value extends readonly (infer Item)[]
          ? PathInto<`${number}` | Wild, Item, Wild, Depth>
          : {
              [Key in keyof Value & string]: PathInto<EscapedKey<Key> | Wild, Value[Key], Wild, Depth>;
            }[keyof Value & string];

type Leaf =
  | string
  | number
  | boolean
  | bigint
  | symbol
  | null
  | undefined
  | Date
  | Uint8Array
  | ReadonlySet<unknown>;
type PathInto<
  Key extends string,
  Value,
  Wild extends string,
  Depth extends readonly unknown[],
> = Depth extends readonly [unknown, ...infer Rest]
  ? Key | `${Key}.${FieldPathOf<Value, Wild, Rest>}`
  : string;
type EscapedKey<Key extends string> = Key extends `${infer Before}.${infer After}`
  ? `${Before}\\.${EscapedKey<After>}`
  : Key;

const PARTS_MAX = 32;
const CHARACTERS_MAX = 1024;

export function parseFieldPaths(paths: readonly string[]): readonly FieldPath[] {
  if (!Array.isArray(paths))
    throw invalidOption("Field paths must be an array of strings such as card.number.");
  return paths.map(parseFieldPath);
}

function parseFieldPath(path: unknown): FieldPath {
  if (typeof path !== "string") throw invalidOption("A field path must be a string such as card.number.");
  const refuse = (reason: string) =>
    invalidOption(`The field path ${JSON.stringify(path.slice(0, 64))} ${reason}.`);
  if (path.length > CHARACTERS_MAX) throw refuse(`is longer than ${CHARACTERS_MAX} characters`);

  const parts: (string | typeof anyField)[] = [];
  let part = "";
  for (let at = 0; at <= path.length; at++) {
    const character = path[at];
    if (character === "." || character === undefined) {
      if (part === "") throw refuse("has an empty part: write it like card.number");
      parts.push(part);
      part = "";
    } else if (character === "\\") {
      at += 1;
      if (at === path.length)
        throw refuse("ends in a backslash, which must be followed by the character it escapes");
      part += path[at];
    } else if (character === "*" && part === "" && (path[at + 1] ?? ".") === ".") {
      parts.push(anyField);
      at += 1;
      if (at === path.length) break;
    } else if ("[]*".includes(character)) {
      throw refuse(`has an unescaped ${character} inside a part: write items.*.secret or items.0.secret`);
    } else {
      part += character;
    }
  }
  if (parts.length > PARTS_MAX) throw refuse(`has more than ${PARTS_MAX} parts`);
  return parts;
}
