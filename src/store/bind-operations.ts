/**
 * Operations of a store that take what they all work with (its calls) before their request, as the contract has them:
 * with their request alone.
 */
type Operation<First> = (first: First, ...rest: never[]) => unknown;

type Bound<First, Operations> = {
  readonly [Name in keyof Operations]: Operations[Name] extends (
    first: First,
    ...rest: infer Rest
  ) => infer Answer
    ? (...rest: Rest) => Answer
    : never;
};

export function bindOperations<First, Operations extends Readonly<Record<string, Operation<First>>>>(
  first: First,
  operations: Operations,
): Bound<First, Operations> {
  const bound = Object.entries(operations).map(([name, operate]) => [name, operate.bind(null, first)]);
  return Object.fromEntries(bound) as Bound<First, Operations>;
}
