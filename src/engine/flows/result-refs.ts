/**
 * References to results that do not exist yet: `rows.result.pages` stands in an input for what the node will have given
 * once it has run. A reference is taken out of the input when the flow is submitted and put in when the job starts;
 * nothing is copied over anyone's input.
 */
import { invalidFlow } from "../../model/flow/graph.ts";
import type { ResultRef } from "../../model/flow/flow-meta.ts";

declare const referred: unique symbol;

/** A part of a result, of which more can be named by its properties. */
export type Ref<Value> = { readonly [referred]: Value } & (Value extends readonly (infer Item)[]
  ? { readonly [index: number]: Ref<Item> }
  : Value extends object
    ? { readonly [Key in keyof Value]-?: Ref<NonNullable<Value[Key]>> }
    : unknown);

/** An input in which references may stand for values. */
export type WithRefs<Input> =
  | Input
  | Ref<Input>
  | (Input extends readonly (infer Item)[]
      ? readonly WithRefs<Item>[]
      : Input extends object
        ? { readonly [Key in keyof Input]: WithRefs<Input[Key]> }
        : never);

type Target = Pick<ResultRef, "of" | "path" | "isList"> & { readonly flow: object };

/** Which result each reference means; the references themselves answer nothing but further references. */
const targets = new WeakMap<object, Target>();

/** @param flow the flow that it is part of: a reference into another one is refused. */
export function refTo<Value>(flow: object, of: string, isList = false): Ref<Value> {
  return makeRef({ flow, of, path: [], ...(isList ? { isList } : {}) }) as Ref<Value>;
}

export const isRef = (value: unknown): boolean =>
  typeof value === "object" && value !== null && targets.has(value);

function makeRef(target: Target): object {
  const ref = new Proxy(Object.freeze({}), {
    get: (_, key) => {
      // Whatever asks whether it is a promise, a primitive or an iterable is told that it is none.
      if (typeof key === "symbol" || key === "then" || key === "toJSON") return undefined;
      return makeRef({ ...target, path: [...target.path, key] });
    },
  });
  targets.set(ref, target);
  return ref;
}

export interface TakenRefs {
  /** The input with nothing in place of its references. */
  readonly input: unknown;
  readonly refs: readonly ResultRef[];
}

/** Takes the references out of an input. Only plain objects and lists are looked into. */
export function takeRefs(flow: object, input: unknown): TakenRefs {
  const refs: ResultRef[] = [];
  /** The way to the value that is looked at. */
  const at: (string | number)[] = [];
  const take = (value: unknown): unknown => {
    if (typeof value !== "object" || value === null) return value;
    const target = targets.get(value);
    if (target !== undefined) {
      if (target.flow !== flow)
        throw invalidFlow(
          `The input refers to the result of ${JSON.stringify(target.of)}, which is a node of another flow.`,
        );
      const { of, path, isList } = target;
      refs.push({ at: [...at], of, path, ...(isList === true ? { isList } : {}) });
      return null;
    }
    if (at.length > depthMax) throw invalidFlow("The input is nested too deeply.");
    if (Array.isArray(value)) return withTaken(value);
    const prototype = Object.getPrototypeOf(value) as unknown;
    return prototype === Object.prototype || prototype === null ? withTaken(value) : value;
  };
  const withTaken = (value: object): unknown => {
    // Most of an input are texts and numbers, which no way has to be kept to; so are most lists.
    if (Array.isArray(value) && value.every(isNoObject)) return value;
    let copy: Record<string | number, unknown> | null = null;
    for (const key of Object.keys(value)) {
      const item = (value as Readonly<Record<string, unknown>>)[key];
      if (isNoObject(item)) continue;
      const step = Array.isArray(value) ? Number(key) : key;
      at.push(step);
      const taken = take(item);
      at.pop();
      if (taken === item) continue;
      copy ??= (Array.isArray(value) ? [...value] : { ...value }) as Record<string | number, unknown>;
      copy[step] = taken;
    }
    return copy ?? value;
  };
  return { input: take(input), refs };
}

const isNoObject = (value: unknown): boolean => typeof value !== "object" || value === null;

const depthMax = 100;

/** The input with these values where its references were. */
export function putValues(
  input: unknown,
  values: readonly { readonly at: readonly (string | number)[]; readonly value: unknown }[],
): unknown {
  let whole = input;
  for (const { at, value } of values) whole = putValue(whole, at, value);
  return whole;
}

function putValue(whole: unknown, [key, ...rest]: readonly (string | number)[], value: unknown): unknown {
  if (key === undefined) return value;
  const copy = (Array.isArray(whole) ? [...whole] : { ...(whole as object) }) as Record<
    string | number,
    unknown
  >;
  // Assigning would call the setter of a property named __proto__.
  const item = putValue(Object.hasOwn(copy, key) ? copy[key] : undefined, rest, value);
  Object.defineProperty(copy, key, { value: item, writable: true, enumerable: true, configurable: true });
  return copy;
}

/** The part of a result that a reference names; undefined where it has no such part. */
export function pickPath(value: unknown, path: readonly (string | number)[]): unknown {
  let part = value;
  for (const key of path) {
    if (typeof part !== "object" || part === null || !Object.hasOwn(part, key)) return undefined;
    part = (part as Record<string | number, unknown>)[key];
  }
  return part;
}
