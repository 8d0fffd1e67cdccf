/**
 * Emits what this process learns of the clocks of the store's jobs: to the duties, which answer clocks, and to the
 * workers, which claim the jobs that a clock has made ready.
 *
 *   a heartbeat                        ──nextRead──► the supervisor of the duties
 *   the supervisor, after a promotion  ──promoted──► the workers
 */
import { Listeners } from "../listeners.ts";

export class JobClocks {
  /**
   * The time until the next clock is due, as the store answered it: 0 if it is due already, null if there is none. So
   * an idle process does not ask for the clocks.
   */
  readonly nextRead = new Listeners<number | null>();
  /** This process has made due jobs ready, so its workers need no hint of them. */
  readonly promoted = new Listeners();
}
