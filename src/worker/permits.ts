/**
 * The permits that the code of this process takes by itself: one desk for each limit, weight and length of lease that
 * was asked for lately.
 */
import type { Engine } from "../engine/engine.ts";
import { MillraceError } from "../model/error.ts";
import type { AcquireWait, DeskOptions } from "./permit-desk.ts";
import { PermitDesk } from "./permit-desk.ts";
import type { Permit } from "./permit.ts";
import type { SharedByWorkers } from "./worker.ts";

export class Permits {
  readonly #engine: Engine;
  readonly #shared: SharedByWorkers;
  readonly #desks = new Map<string, PermitDesk>();
  #isClosed = false;

  constructor(engine: Engine, shared: SharedByWorkers) {
    this.#engine = engine;
    this.#shared = shared;
  }

  acquire(options: DeskOptions, wait: AcquireWait): Promise<Permit> {
    if (this.#isClosed) throw new MillraceError("closed", "This Millrace was closed; open a new one.");
    const { limit, weight, leaseMs } = options;
    const key = `${weight} ${leaseMs} ${limit}`;
    const known = this.#desks.get(key);
    if (known !== undefined) return known.acquire(wait);
    const desk = new PermitDesk(this.#engine, this.#shared, options, () => {
      this.#desks.delete(key);
      void desk.close();
    });
    this.#desks.set(key, desk);
    return desk.acquire(wait);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#desks.values()].map((desk) => desk.close()));
  }
}
