/**
 * The operations of a store as its files define them: functions whose first argument is what all calls of the store
 * share. Bound to it, they have the signatures of the contract.
 */
import type { Store } from "./store.ts";

type Run<Answer> = (...args: never[]) => Answer;

/** An operation of the contract, with what calls share before its arguments. */
export type OperationOf<Shared, Name extends keyof Store> = (
  shared: Shared,
  ...args: Parameters<Extract<Store[Name], Run<unknown>>>
) => ReturnType<Extract<Store[Name], Run<unknown>>>;

type Operations<Shared, Name extends keyof Store> = { readonly [Each in Name]: OperationOf<Shared, Each> };

export function bindOperations<Shared, Name extends keyof Store>(
  shared: Shared,
  operations: Operations<Shared, Name>,
): Pick<Store, Name> {
  const bound = Object.entries<Run<unknown>>(operations).map(([name, run]) => [
    name,
    (run as (...args: unknown[]) => unknown).bind(null, shared),
  ]);
  return Object.fromEntries(bound) as Pick<Store, Name>;
}
