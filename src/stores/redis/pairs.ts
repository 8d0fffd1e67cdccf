/**
 * The submit of one job and the claim that a worker of this process makes behind it in the same turn travel as one call (lua/submit-claim.ts): one
 * way to the server instead of two for a job on an idle queue. A submit waits for such a claim until the calls of its turn are made, and no
 * longer.
 */
import type { Connection } from "./connection.ts";

interface Held {
  readonly args: readonly string[];
  readonly answered: (route: unknown) => void;
  readonly failed: (error: unknown) => void;
}

export class Pairs {
  readonly #connection: Connection;
  #held: Held | null = null;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  submitOne(args: readonly string[]): Promise<unknown> {
    this.#release();
    return new Promise((answered, failed) => {
      const held: Held = { args, answered, failed };
      this.#held = held;
      queueMicrotask(() => {
        if (this.#held === held) this.#release();
      });
    });
  }

  claim(args: readonly string[]): Promise<unknown> {
    const held = this.#held;
    if (held === null) return this.#connection.write("mr1_claim", args);
    this.#held = null;
    const both = this.#connection.write("mr1_submit_claim", [...held.args, ...args]) as Promise<
      [unknown, unknown]
    >;
    both.then(([route]) => held.answered(route), held.failed);
    return both.then(([, claimed]) => claimed);
  }

  #release(): void {
    const held = this.#held;
    if (held === null) return;
    this.#held = null;
    this.#connection.write("mr1_submit_one", held.args).then(held.answered, held.failed);
  }
}
