/**
 * Tells the feed that a queue ran empty: nothing of it is ready or running, in any process. The worker that had the
 * last jobs says so, once its part of the queue has been idle for a second; so a queue that is fed again and again
 * costs nothing, and an emptying costs four small calls.
 *
 * Told once: a document of the queue keeps when it was told last, and only a worker that has claimed a job since then
 * tells it again. Two at once meet at the version of the document.
 */
import type { Needs } from "../../engine/services.ts";
import type { Timer } from "../../platform/platform.ts";

type EmptyQueuesNeeds = Needs<"store" | "platform" | "log">;

const idleMs = 1000;
const emptyKind = "queue-empty";

export class EmptyQueues {
  readonly #needs: EmptyQueuesNeeds;
  readonly #isIdle: (queue: string) => boolean;
  /** Store time of the last claim that brought jobs, by queue; only of queues that are watched. */
  readonly #claimedAt = new Map<string, number>();
  /** Queues that were claimed from since the last look. */
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
