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
  ? number extends Value["length"]
    ? { readonly [index: number]: Ref<Item> }
    : { readonly [Key in keyof Value & `${number}`]: Ref<Value[Key]> }
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
      if (key === Symbol.toPrimitive) return () => noValueYet(target);
      // Whatever asks whether it is a promise or an iterable is told that it is none.
      if (typeof key === "symbol" || key === "then" || key === "toJSON") return undefined;
      return makeRef({ ...target, path: [...target.path, key] });
    },
    ownKeys: () => noValueYet(target),
  });
  targets.set(ref, target);
  return ref;
}

/** For whoever makes a text or a copy of a reference. */
function noValueYet({ of }: Target): never {
  throw invalidFlow(
    `The result of ${JSON.stringify(of)} is not there before it has run: put it, or a part of it, into the input as it is.`,
  );
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
    if (prototype === Object.prototype || prototype === null) return withTaken(value);
    if (insideOf(value).some(isRef))
      throw invalidFlow(
        "A result stands in the input as a value of objects and lists only, not in a Map, a Set or a class.",
      );
    return value;
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

/** The values inside of an object that is none of the plain ones. */
function insideOf(value: object): readonly unknown[] {
  if (value instanceof Map) return [...value.keys(), ...value.values()];
  if (value instanceof Set) return [...value];
  return ArrayBuffer.isView(value) ? [] : Object.values(value);
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

/** The input as it is known before its references are: whoever reads one of them gets this error. */
export function withUnknown(
  input: unknown,
  refs: readonly ResultRef[],
  refuse: (of: string) => Error,
): unknown {
  const copies = new Set<object>();
  const copyOf = (value: unknown): object => {
    if (copies.has(value as object)) return value as object;
    const copy: object = Array.isArray(value) ? [...value] : { ...(value as object) };
    copies.add(copy);
    return copy;
  };
  let whole = input;
  for (const { at, of } of refs) {
    const get = (): never => {
      throw refuse(of);
    };
    const last = at.at(-1);
    if (last === undefined) return new Proxy({}, { get, has: get, ownKeys: get });
    let inner = copyOf(whole);
    whole = inner;
    for (const key of at.slice(0, -1)) {
      const next = copyOf((inner as Record<string | number, unknown>)[key]);
      Object.defineProperty(inner, key, {
        value: next,
        writable: true,
        enumerable: true,
        configurable: true,
      });
      inner = next;
    }
    Object.defineProperty(inner, last, { get, enumerable: true, configurable: true });
  }
  return whole;
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
