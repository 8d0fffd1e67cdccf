/**
 * What this process learns of the clocks of the store's jobs, for those of its parts that act on it: the duties, which
 * answer clocks, and the workers, which claim what a clock has made ready.
 *
 *   a heartbeat                        ──nextRead──► the supervisor of the duties
 *   the supervisor, after a promotion  ──promoted──► the workers
 */
import { Listeners } from "../listeners.ts";

export class JobClocks {
  /**
   * The time until the next clock rings, as the store has answered it: 0 if it has rung already, null if none is set.
   * So an idle process does not ask for the clocks.
   */
  readonly nextRead = new Listeners<number | null>();
  /** This process has made due jobs ready, so that its workers need no hint of them. */
  readonly promoted = new Listeners();
}
