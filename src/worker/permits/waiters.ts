/**
 * The waiters of one permit acquirer, by key, and in order for each key. A permit job of a key serves only the waiters
 * for that key. Without keys all waiters have the key null.
 */

export class Waiters<Waiter extends { readonly key: string | null }> {
  readonly #byKey = new Map<string | null, Set<Waiter>>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(waiter: Waiter): void {
    const alike = this.#byKey.get(waiter.key);
    if (alike === undefined) this.#byKey.set(waiter.key, new Set([waiter]));
    else alike.add(waiter);
    this.#count += 1;
  }

  has(waiter: Waiter): boolean {
    return this.#byKey.get(waiter.key)?.has(waiter) ?? false;
  }

  /** @returns false if the waiter did not wait any more. */
  remove(waiter: Waiter): boolean {
    const alike = this.#byKey.get(waiter.key);
    if (alike === undefined || !alike.delete(waiter)) return false;
    if (alike.size === 0) this.#byKey.delete(waiter.key);
    this.#count -= 1;
    return true;
  }

  /** Takes the waiter that has waited longest for the key. */
  take(key: string | null): Waiter | undefined {
    const [first] = this.#byKey.get(key) ?? [];
    if (first !== undefined) this.remove(first);
    return first;
  }

  /** All waiters, as a new list. */
  all(): readonly Waiter[] {
    return [...this.#byKey.values()].flatMap((alike) => [...alike]);
  }
}
