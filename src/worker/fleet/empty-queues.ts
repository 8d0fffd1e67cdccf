/**
 * Emits an event when a queue has run empty: none of its jobs is ready or running in any process. The worker that held
 * its last jobs checks this after its part of the queue has been idle for a second. So a queue that gets jobs all the
 * time costs nothing, and a queue that empties costs four small calls.
 *
 * The event is emitted once: a document of the queue has the time of its last event, and only a worker that has claimed
 * a job since then emits the next one. If two workers emit at once, the version of the document refuses the second.
 */
import type { Needs } from "../../engine/services.ts";
import type { Timer } from "../../platform/platform.ts";

type EmptyQueuesNeeds = Needs<"store" | "platform" | "log">;

const idleMs = 1000;
const emptyKind = "queue-empty";

export class EmptyQueues {
  readonly #needs: EmptyQueuesNeeds;
  readonly #isIdle: (queue: string) => boolean;
  /** Store time of the last claim that brought jobs, by queue; only queues that will be checked. */
  readonly #claimedAt = new Map<string, number>();
  /** Queues from which jobs were claimed since the last check. */
  readonly #busy = new Set<string>();
  #timer: Timer | null = null;
  #isStopped = false;

  /** @param isIdle whether this worker holds no job of the queue. */
  constructor(needs: EmptyQueuesNeeds, isIdle: (queue: string) => boolean) {
    this.#needs = needs;
    this.#isIdle = isIdle;
  }

  /** A claim has brought jobs of the queue. @param at by the store's clock. */
  claimed(queue: string, at: number): void {
    this.#claimedAt.set(queue, at);
    this.#busy.add(queue);
    if (this.#timer === null && !this.#isStopped) this.#lookLater();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #lookLater(): void {
    this.#timer = this.#needs.platform.setTimer(idleMs, () => void this.#look(), false);
  }

  async #look(): Promise<void> {
    for (const [queue, claimedAt] of this.#claimedAt) {
      if (this.#busy.has(queue) || !this.#isIdle(queue)) continue;
      this.#claimedAt.delete(queue);
      try {
        await this.#emitIfEmpty(queue, claimedAt);
      } catch (error) {
        this.#needs.log.debug("whether a queue is empty could not be emitted", { queue, error });
      }
    }
    this.#busy.clear();
    this.#timer = null;
    if (this.#claimedAt.size > 0 && !this.#isStopped) this.#lookLater();
  }

  async #emitIfEmpty(queue: string, claimedAt: number): Promise<void> {
    const { store } = this.#needs;
    const [doc] = (await store.readDocs({ kind: emptyKind, ids: [queue] })).docs;
    if (doc !== undefined && Number(doc.body) >= claimedAt) return;
    const { now } = await store.describe();
    const isLeft = (await store.countJobs()).some(
      (stateCount) =>
        stateCount.queue === queue && (stateCount.state === "ready" || stateCount.state === "running"),
    );
    if (isLeft) return;
    const guard = doc === undefined ? "absent" : { version: doc.version };
    const emits = { kind: "queue-empty", subject: queue, extra: null } as const;
    await store.putDocs([{ kind: emptyKind, id: queue, body: String(now), guard, emits }]);
  }
}
