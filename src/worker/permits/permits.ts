/**
 * The permits that the code of this process acquires. There is one acquirer for each limit, weight and length of lease
 * in use, and another one for permits of its keys, under the acquirer number of this process (model/limits/permit.ts).
 */
import { MillraceError } from "../../model/error.ts";
import { acquirerNumbers } from "../../model/limits/permit.ts";
import type { AcquireWait, AcquirerOptions, PermitAcquirerNeeds } from "./permit-acquirer.ts";
import { PermitAcquirer } from "./permit-acquirer.ts";
import type { Permit } from "./permit.ts";
import type { SharedByWorkers } from "../worker.ts";

export class Permits {
  readonly #needs: PermitAcquirerNeeds;
  readonly #shared: SharedByWorkers;
  readonly #acquirers = new Map<string, PermitAcquirer>();
  /** The acquirer number was drawn from 0 to N - 1. */
  #numbers = acquirerNumbers.first;
  #acquirerNumber: number;
  #isClosed = false;

  constructor(needs: PermitAcquirerNeeds, shared: SharedByWorkers) {
    this.#needs = needs;
    this.#shared = shared;
    this.#acquirerNumber = this.#drawNumber();
  }

  async acquire(options: Omit<AcquirerOptions, "acquirerNumber">, wait: AcquireWait): Promise<Permit> {
    const { platform } = this.#needs;
    const startedUs = platform.monotonicUs();
    let { waitMs } = wait;
    for (;;) {
      if (this.#isClosed) throw new MillraceError("closed", "This Millrace was closed; open a new one.");
      const acquirerNumber = wait.key === null ? null : this.#acquirerNumber;
      const permit = await this.#acquirerFor({ ...options, acquirerNumber }).acquire({ ...wait, waitMs });
      if (permit !== null) return permit;
      waitMs = Math.max(1, wait.waitMs - Math.floor((platform.monotonicUs() - startedUs) / 1000));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#acquirers.values()].map((acquirer) => acquirer.close()));
  }

  /** Called by each acquirer that notices it; only the first call for a number draws another. */
  #numberShared(acquirerNumber: number | null): void {
    if (acquirerNumber !== this.#acquirerNumber) return;
    this.#numbers = Math.min(this.#numbers * acquirerNumbers.growth, acquirerNumbers.max);
    this.#acquirerNumber = this.#drawNumber();
  }

  #drawNumber(): number {
    return Math.floor(this.#needs.platform.random() * this.#numbers);
  }

  #acquirerFor(options: AcquirerOptions): PermitAcquirer {
    const { limit, weight, leaseMs, isBoundedInAll, acquirerNumber } = options;
    const key = `${weight} ${leaseMs} ${isBoundedInAll} ${acquirerNumber} ${limit}`;
    const known = this.#acquirers.get(key);
    if (known !== undefined) return known;
    const acquirer = new PermitAcquirer(this.#needs, this.#shared, options, {
      idle: () => {
        this.#acquirers.delete(key);
        void acquirer.close();
      },
      numberShared: () => this.#numberShared(acquirerNumber),
    });
    this.#acquirers.set(key, acquirer);
    return acquirer;
  }
}
