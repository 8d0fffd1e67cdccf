/**
 * Everything that Millrace takes from the world around it: time, timers, turns, randomness and identity. Only this folder
 * touches the real ones, so the whole engine runs under a virtual clock and a seeded scheduler in tests.
 */

export interface Platform {
  /** Wall clock, epoch milliseconds. Decides nothing but the store's own time where the opener's clock is the store's clock. */
  now(): number;
  /** Microseconds that never go back; for measuring handlers and local waits. */
  monotonicUs(): number;
  /** Runs once after at least `delayMs`. A timer that does not keep the process alive is for upkeep only. */
  setTimer(delayMs: number, run: () => void, keepsAlive?: boolean): Timer;
  /** Runs after everything that is already going on in this turn of the event loop. */
  defer(run: () => void): void;
  /** Uniform in [0, 1). */
  random(): number;
  randomBytes(count: number): Uint8Array;
  /** Changes when the machine restarts; null where that cannot be known. */
  bootId(): string | null;
  /** Runs on SIGTERM or SIGINT until it is taken back; a second signal then ends the process as if nobody listened. */
  onTermination(run: () => void): () => void;
  readonly processId: number;
  readonly hostName: string;
}

export interface Timer {
  cancel(): void;
}
