/**
 * What operators and code have set of queues (model/fleet/queue-policy.ts), as far as this process needs it. The queues
 * that its workers serve are read together: when a worker starts, when the change number of settings has grown
 * (fleet/change-numbers.ts), and once a minute, because a number that could not be written is not waited for. Whoever
 * decides about jobs of other queues (duties, views) reads theirs first.
 *
 * Always true: what cannot be read stays as it was last known.
 */
import { gateName, queueGateKey } from "../../model/limits/gate.ts";
import { queuePolicyOf, readBody } from "../../model/limits/limit.ts";
import type { QueuePolicy } from "../../model/fleet/queue-policy.ts";
import type { Store } from "../../store/store.ts";
import type { Logger } from "../log/logger.ts";

const none: QueuePolicy = {};

interface Surroundings {
  readonly store: Pick<Store, "readGates" | "readRoutes">;
  readonly log: Logger;
}

export class QueuePolicies {
  readonly #around: Surroundings;
  readonly #changed: (queue: string) => void;
  /** Only of queues of which something is set. */
  readonly #known = new Map<string, QueuePolicy>();
  /** The queues that workers of this process serve, with what is called on a change. */
  readonly #users = new Set<{ readonly queues: readonly string[]; readonly changed: () => void }>();
  #titleByRoute: ReadonlyMap<number, { readonly queue: string; readonly name: string }> = new Map();

  /** @param changed is called for each queue of which something else is known now. */
  constructor(around: Surroundings, changed: (queue: string) => void) {
    this.#around = around;
    this.#changed = changed;
  }

  /** Nothing is set of any queue that is known here. */
  get isEmpty(): boolean {
    return this.#known.size === 0;
  }

  of(queue: string): QueuePolicy {
    return this.#known.get(queue) ?? none;
  }

  /** Keeps these queues known. @returns a function that ends it. */
  use(queues: readonly string[], changed: () => void): () => void {
    const user = { queues, changed };
    this.#users.add(user);
    return () => void this.#users.delete(user);
  }

  /** Reads what is in use. */
  refresh(): Promise<void> {
    return this.learn([...this.#users].flatMap(({ queues }) => queues));
  }

  /** Reads what is set of these queues. */
  async learn(queues: readonly string[]): Promise<void> {
    const asked = [...new Set(queues)];
    if (asked.length === 0) return;
    try {
      const { gates } = await this.#around.store.readGates({ keys: asked.map(queueGateKey), mayFail: true });
      const bodies = new Map(gates.map(({ key, body }) => [gateName(key), body]));
      const news = asked.filter((queue) =>
        this.#heed(queue, queuePolicyOf(readBody(bodies.get(queue) ?? null))),
      );
      if (news.length === 0) return;
      for (const user of this.#users) if (user.queues.some((queue) => news.includes(queue))) user.changed();
    } catch (error) {
      this.#around.log.debug("the settings of queues could not be read", { error });
    }
  }

  /** As `learn`, for the queues of these routes. */
  async learnOfRoutes(routes: readonly number[]): Promise<void> {
    try {
      if (routes.some((route) => !this.#titleByRoute.has(route)))
        this.#titleByRoute = new Map(
          (await this.#around.store.readRoutes()).map(({ number, queue, name }) => [number, { queue, name }]),
        );
    } catch (error) {
      this.#around.log.debug("the routes could not be read", { error });
    }
    await this.learn(routes.flatMap((route) => this.queueAt(route) ?? []));
  }

  queueAt(route: number): string | undefined {
    return this.#titleByRoute.get(route)?.queue;
  }

  /** The queue and the name of the jobs of a route; undefined if it was not asked for by `learnOfRoutes`. */
  titleAt(route: number): { readonly queue: string; readonly name: string } | undefined {
    return this.#titleByRoute.get(route);
  }

  #heed(queue: string, policy: QueuePolicy): boolean {
    if (JSON.stringify(this.of(queue)) === JSON.stringify(policy)) return false;
    if (Object.keys(policy).length === 0) this.#known.delete(queue);
    else this.#known.set(queue, policy);
    this.#changed(queue);
    return true;
  }
}
