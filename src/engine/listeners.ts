/**
 * Functions of this process that are called when something has happened in it. Whoever makes it happen owns the
 * listeners and emits; a listener returns at once and never throws.
 */
export class Listeners<Event = void> {
  readonly #listeners = new Set<(event: Event) => void>();

  get isEmpty(): boolean {
    return this.#listeners.size === 0;
  }

  /** @returns a function that ends it. */
  add(listener: (event: Event) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  emit(event: Event): void {
    for (const listener of this.#listeners) listener(event);
  }
}
