/**
 * Routes of a store of several partitions. Each partition numbers its own; the store numbers them again by queue and
 * name, in the order in which this process meets them, so a number means the same in all partitions and never changes
 * while the store is open.
 */
import type { Route } from "../records.ts";

export class RouteTable {
  readonly #routes: Route[] = [];
  readonly #numbers = new Map<string, number>();
  #last: Route | null = null;
  /** Per partition: the store's number of its n-th route, and back. */
  readonly #outer: number[][];
  readonly #inner: Map<number, number>[];

  constructor(partitions: number) {
    this.#outer = Array.from({ length: partitions }, () => []);
    this.#inner = Array.from({ length: partitions }, () => new Map<number, number>());
  }

  /** How many of a partition's routes are known. */
  known(partition: number): number {
    return (this.#outer[partition] as number[]).length;
  }

  /** The number of this queue and name; a new route gets the next number. */
  number(queue: string, name: string): number {
    const last = this.#last;
    if (last !== null && last.queue === queue && last.name === name) return last.number;
    const key = `${queue.length}:${queue}${name}`;
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#routes.push({ number: this.#routes.length + 1, queue, name, caps: [] });
      this.#numbers.set(key, number);
    }
    this.#last = this.#routes[number - 1] as Route;
    return number;
  }

  learn(partition: number, routes: readonly Route[]): void {
    for (const { number: inner, queue, name } of routes) {
      const outer = this.number(queue, name);
      (this.#outer[partition] as number[])[inner - 1] = outer;
      (this.#inner[partition] as Map<number, number>).set(outer, inner);
    }
  }

  /** The store's number; undefined when the partition has made a route that this process has not met. */
  outer(partition: number, inner: number): number | undefined {
    return (this.#outer[partition] as number[])[inner - 1];
  }

  /** Whether the partition is known to have the route. */
  has(partition: number, outer: number): boolean {
    return (this.#inner[partition] as Map<number, number>).has(outer);
  }

  /** The partition's own numbers of those routes that it has. */
  inner(partition: number, outer: readonly number[]): number[] {
    const numbers = this.#inner[partition] as Map<number, number>;
    return outer.flatMap((number) => numbers.get(number) ?? []);
  }

  /** The routes after the first `known`. */
  after(known: number): readonly Route[] {
    return this.#routes.slice(known);
  }
}
