/**
 * The permits that the code of this process takes by itself: one desk for each limit, weight and length of lease that
 * was asked for lately, and another one for those of its keys, under the desk number of this process
 * (model/limits/permit.ts).
 */
import { MillraceError } from "../../model/error.ts";
import { deskNumbers } from "../../model/limits/permit.ts";
import type { AcquireWait, DeskOptions, PermitDeskNeeds } from "./permit-acquirer.ts";
import { PermitDesk } from "./permit-acquirer.ts";
import type { Permit } from "./permit.ts";
import type { SharedByWorkers } from "../worker.ts";

export class Permits {
  readonly #needs: PermitDeskNeeds;
  readonly #shared: SharedByWorkers;
  readonly #desks = new Map<string, PermitDesk>();
  /** Out of how many the desk number was drawn. */
  #numbers = deskNumbers.first;
  #deskNumber: number;
  #isClosed = false;

  constructor(needs: PermitDeskNeeds, shared: SharedByWorkers) {
    this.#needs = needs;
    this.#shared = shared;
    this.#deskNumber = this.#drawNumber();
  }

  async acquire(options: Omit<DeskOptions, "deskNumber">, wait: AcquireWait): Promise<Permit> {
    const { platform } = this.#needs;
    const startedUs = platform.monotonicUs();
    let { waitMs } = wait;
    for (;;) {
      if (this.#isClosed) throw new MillraceError("closed", "This Millrace was closed; open a new one.");
      const deskNumber = wait.key === null ? null : this.#deskNumber;
      const permit = await this.#deskFor({ ...options, deskNumber }).acquire({ ...wait, waitMs });
      if (permit !== null) return permit;
      waitMs = Math.max(1, wait.waitMs - Math.floor((platform.monotonicUs() - startedUs) / 1000));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#desks.values()].map((desk) => desk.close()));
  }

  /** Each desk of the number may notice it. */
  #numberShared(deskNumber: number | null): void {
    if (deskNumber !== this.#deskNumber) return;
    this.#numbers = Math.min(this.#numbers * deskNumbers.growth, deskNumbers.max);
    this.#deskNumber = this.#drawNumber();
  }

  #drawNumber(): number {
    return Math.floor(this.#needs.platform.random() * this.#numbers);
  }

  #deskFor(options: DeskOptions): PermitDesk {
    const { limit, weight, leaseMs, isBoundedInAll, deskNumber } = options;
    const key = `${weight} ${leaseMs} ${isBoundedInAll} ${deskNumber} ${limit}`;
    const known = this.#desks.get(key);
    if (known !== undefined) return known;
    const desk = new PermitDesk(this.#needs, this.#shared, options, {
      idle: () => {
        this.#desks.delete(key);
        void desk.close();
      },
      numberShared: () => this.#numberShared(deskNumber),
    });
    this.#desks.set(key, desk);
    return desk;
  }
}
