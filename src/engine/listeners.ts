/**
 * Callbacks for one kind of event in this process. The service in which the event happens owns the list and emits. A
 * listener returns at once and never throws.
 */
export class Listeners<Event = void> {
  readonly #listeners = new Set<(event: Event) => void>();

  get isEmpty(): boolean {
    return this.#listeners.size === 0;
  }

  /** @returns a function that ends this. */
  add(listener: (event: Event) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  emit(event: Event): void {
    for (const listener of this.#listeners) listener(event);
  }
}
