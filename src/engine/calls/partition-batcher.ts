/**
 * Batching on a store of several partitions: each partition has a batcher of its own. A call goes to one partition, and
 * a partition that is away delays no items of the others.
 */
import { Batcher } from "./batcher.ts";
import type { BatcherOptions, Ticket } from "./batcher.ts";

export type Batching<Item, Answer> = Pick<Batcher<Item, Answer>, "push" | "add" | "whenIdle">;

export class PartitionBatcher<Item, Answer> implements Batching<Item, Answer> {
  readonly #batchers: readonly Batcher<Item, Answer>[];
  readonly #partitionOf: (item: Item) => number;

  constructor(
    options: BatcherOptions<Item, Answer>,
    partitions: number,
    partitionOf: (item: Item) => number,
  ) {
    this.#batchers = Array.from({ length: partitions }, () => new Batcher(options));
    this.#partitionOf = partitionOf;
  }

  push(item: Item, ticket: Ticket<Answer>): void {
    this.#of(item).push(item, ticket);
  }

  add(item: Item): Promise<Answer> {
    return this.#of(item).add(item);
  }

  async whenIdle(): Promise<void> {
    await Promise.all(this.#batchers.map((batcher) => batcher.whenIdle()));
  }

  #of(item: Item): Batcher<Item, Answer> {
    return this.#batchers[this.#partitionOf(item)] as Batcher<Item, Answer>;
  }
}
