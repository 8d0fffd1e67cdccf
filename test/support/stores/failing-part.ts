/**
 * A part of a partitioned store for tests: a store that counts its claims and promotions, also tells the hints that the
 * test wants, and can be made to fail or to fall silent, as a whole or in single operations.
 */
import type { Hint, Store } from "../../../src/store/store.ts";

export interface FailingPart extends Store {
  claims: number;
  promotions: number;
  /** Every operation fails with it; `outcome-unknown` after it was done. */
  fails: (Error & { readonly code?: string }) | null;
  /** These operations fail with `fails`, all others work; empty for all. */
  failing: readonly string[];
  /** Calls are done, and answered only when the part speaks again. */
  fallSilent(): void;
  speak(): void;
  hint(hint: Hint): void;
}

const open = ["watch", "close", "inTransaction"];

export function failingPart(inner: Store): FailingPart {
  const watchers = new Set<(hint: Hint) => void>();
  let silence: PromiseWithResolvers<void> | null = null;

  const call = async (name: string, invoke: () => Promise<unknown>): Promise<unknown> => {
    const { fails, failing } = part;
    const isFailing = fails !== null && (failing.length === 0 || failing.includes(name));
    // The call was done, but nobody hears of it.
    if (isFailing && fails.code === "outcome-unknown") await invoke();
    if (isFailing) throw fails;
    const answer = await invoke();
    await silence?.promise;
    return answer;
  };
  const guarded = Object.fromEntries(
    Object.entries(inner)
      .filter(([name, operation]) => typeof operation === "function" && !open.includes(name))
      .map(([name, operation]: [string, (request: unknown) => Promise<unknown>]) => [
        name,
        (request: unknown) => {
          if (name === "claim") part.claims += 1;
          if (name === "promoteDue") part.promotions += 1;
          return call(name, () => operation(request));
        },
      ]),
  ) as unknown as Store;
  const part: FailingPart = {
    ...inner,
    ...guarded,
    claims: 0,
    promotions: 0,
    fails: null,
    failing: [],
    fallSilent: () => void (silence = Promise.withResolvers()),
    speak() {
      silence?.resolve();
      silence = null;
    },
    hint: (hint) => watchers.forEach((watcher) => watcher(hint)),
    watch(watcher) {
      watchers.add(watcher);
      const unwatch = inner.watch(watcher);
      return () => {
        watchers.delete(watcher);
        unwatch();
      };
    },
  };
  return part;
}
