/**
 * The health of one partition, as its callers see it: which operations fail there, and whether it can be reached.
 *
 *   present ──unreachable, or silent past a caller's timeout──► away ──anything is answered──► present
 *
 * No call waits for a partition that is away: it passes it over and, after a delay, starts a probe in the background
 * (partition.ts). If an operation fails although the partition answers, only that operation is not tried for a while.
 */
import { isMillraceError, MillraceError } from "../../model/error.ts";

const waitFirstMs = 250;
const waitMaxMs = 5000;
/** After this time the answer to a call is not expected any more. */
export const hopelessMs = 30_000;
/** A failed operation that is not tried again is reported no longer than this. */
const shownMs = 60_000;

interface Trouble {
  failures: number;
  error: unknown;
  atMs: number;
}

export class Health {
  readonly #nowMs: () => number;
  readonly #returned: () => void;
  /** By operation, without those that worked when they were last tried. */
  readonly #troubles = new Map<string, Trouble>();
  #away: Trouble | null = null;
  /** Probes, and calls that were not answered in time: their answers will show whether it is back. */
  #awaited = 0;

  /** @param returned called when a partition that was away has answered. */
  constructor(nowMs: () => number, returned: () => void) {
    this.#nowMs = nowMs;
    this.#returned = returned;
  }

  get isAway(): boolean {
    return this.#away !== null;
  }

  /** Whether the operation may be tried now. */
  mayAsk(operation: string): boolean {
    const trouble = this.#troubles.get(operation);
    return this.#away === null && (trouble === undefined || this.#isOver(trouble));
  }

  /**
   * Whether a probe is due: the partition is away, the delay is over, and no call is left whose answer would show it.
   */
  get isProbeDue(): boolean {
    if (this.#away === null) return false;
    return this.#awaited === 0 ? this.#isOver(this.#away) : this.#nowMs() - this.#away.atMs >= hopelessMs;
  }

  probes(call: Promise<unknown>): void {
    if (this.#away !== null) this.#away.atMs = this.#nowMs();
    this.awaits(call);
  }

  answered(operation: string): void {
    if (this.#troubles.size > 0) this.#troubles.delete(operation);
    this.#isBack();
  }

  failed(operation: string, error: unknown): void {
    if (isUnreachable(error)) {
      this.#away = this.#after(this.#away, error);
      return;
    }
    this.#troubles.set(operation, this.#after(this.#troubles.get(operation) ?? null, error));
    this.#isBack();
  }

  /** A call was not answered in time. */
  fellSilent(): void {
    const error = new MillraceError("outcome-unknown", "The partition does not answer.");
    this.#away = this.#after(this.#away, error);
  }

  /** This call will still be answered: until then no probe is due. */
  awaits(call: Promise<unknown>): void {
    this.#awaited += 1;
    const over = (): void => void (this.#awaited -= 1);
    call.then(over, over);
  }

  /** The partition was not there when the store was opened. */
  opensLate(opening: Promise<unknown>): void {
    this.fellSilent();
    this.awaits(opening);
    opening.then(
      () => this.answered("describe"),
      (error: unknown) => this.failed("describe", error),
    );
  }

  /** What is wrong with it now; null for nothing. */
  get trouble(): { readonly failures: number; readonly error: unknown } | null {
    const nowMs = this.#nowMs();
    const all = [this.#away, ...this.#troubles.values()].filter((each) => each !== null);
    const shown = all.filter((each) => each === this.#away || nowMs - each.atMs < shownMs);
    const [worst] = shown.toSorted((one, other) => other.failures - one.failures);
    return worst === undefined ? null : { failures: worst.failures, error: worst.error };
  }

  #isBack(): void {
    if (this.#away === null) return;
    this.#away = null;
    this.#returned();
  }

  #after(before: Trouble | null, error: unknown): Trouble {
    return { failures: (before?.failures ?? 0) + 1, error, atMs: this.#nowMs() };
  }

  #isOver({ failures, atMs }: Trouble): boolean {
    const waitMs = Math.min(waitMaxMs, waitFirstMs * 2 ** Math.min(failures - 1, 10));
    return this.#nowMs() - atMs >= waitMs;
  }
}

/** Whether the error means that the partition was not reached, rather than that the operation failed. */
function isUnreachable(error: unknown): boolean {
  return (
    isMillraceError(error, "store-unavailable") ||
    isMillraceError(error, "outcome-unknown") ||
    isMillraceError(error, "too-many-connections")
  );
}
