/** The jobs of the kill test, shared by workers and producers. What a handler does follows from its input. */
import { job } from "../../src/engine/submit/job-definition.ts";

export interface ChaosInput {
  readonly number: number;
  /** How long the handler works. */
  readonly ms: number;
  /** Ends when its signal fires. */
  readonly heeds?: boolean;
  /**
   * The process of this name stops itself there, all of it, so that nothing of it can notice a lost lease; somebody
   * sends it SIGCONT.
   */
  readonly freezes?: string;
  /** Kills its process at once, and has N attempts. */
  readonly kills?: number;
  /** Fails N times before it succeeds. */
  readonly failures?: number;
  /** Enqueues a follow-up with its completion. */
  readonly hasFollow?: boolean;
}

export const work = job<ChaosInput, string>("work", {
  queue: "chaos",
  retry: { attempts: 20, backoff: { kind: "fixed", delay: 20, jitter: "none" } },
});
export const follow = job<{ readonly parent: string }, null>("follow", {
  queue: "chaos",
  retry: { attempts: 20, backoff: { kind: "fixed", delay: 20, jitter: "none" } },
});
