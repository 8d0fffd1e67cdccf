/** The names of jobs that the workers of this process have handlers for. */
export class HandledNames {
  readonly #workers = new Map<string, number>();

  /** @returns a function that takes them back. */
  add(names: readonly string[]): () => void {
    const count = (name: string, by: number): void =>
      void this.#workers.set(name, (this.#workers.get(name) ?? 0) + by);
    for (const name of names) count(name, 1);
    return () => names.forEach((name) => count(name, -1));
  }

  has(name: string): boolean {
    return (this.#workers.get(name) ?? 0) > 0;
  }
}
