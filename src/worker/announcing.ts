/**
 * Announcing: a live worker renews its notice, so that the fleet knows which names are handled and how it fares; at its
 * stop the notice goes. In the same rounds it hears what the fleet has agreed on: whether an outcome that was not kept is
 * kept now, and what operators have set of its queues, where the hint of that was lost.
 */
import type { Engine } from "../engine/engine.ts";
import { noticeEveryMs, noticePut } from "../engine/worker-notice.ts";
import type { WorkerNotice } from "../engine/worker-notice.ts";
import type { Timer } from "../platform/platform.ts";

export class Announcing {
  readonly #engine: Engine;
  readonly #owner: string;
  readonly #read: () => Omit<WorkerNotice, "writtenAt">;
  #timer: Timer | null = null;
  #isStopped = false;

  /** @param read what the notice says now. */
  constructor(engine: Engine, owner: string, read: () => Omit<WorkerNotice, "writtenAt">) {
    this.#engine = engine;
    this.#owner = owner;
    this.#read = read;
  }

  start(): void {
    this.changed();
    void this.#hearRetention();
    void this.#engine.queuePolicies.refresh();
    this.#timer = this.#engine.platform.setTimer(noticeEveryMs, () => this.start(), false);
  }

  /** What the notice says has changed: it is put at once. */
  changed(): void {
    if (!this.#isStopped) void this.#put({ ...this.#read(), writtenAt: this.#engine.platform.now() });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#put(null);
  }

  /** Only an outcome of which nothing is kept matters before the retention duty comes. Unheard, everything is kept. */
  async #hearRetention(): Promise<void> {
    const { retention, log } = this.#engine;
    const mayLeaveOut = Object.values(retention.known ?? {}).includes(0);
    if (!mayLeaveOut && !retention.isUndeclared) return;
    try {
      await retention.learn();
    } catch (error) {
      log.debug("the retention of the store could not be read", { error });
    }
  }

  /** A notice that could not be put is put again at the next round; it is only a notice. */
  async #put(notice: WorkerNotice | null): Promise<void> {
    try {
      await this.#engine.store.putDocs([noticePut(this.#owner, notice)]);
    } catch (error) {
      this.#engine.log.debug("the worker's notice could not be written", { error });
    }
  }
}
