/**
 * Everything that Millrace takes from the world around it: time, timers, turns, randomness and identity. Only this
 * folder touches the real clock and process, so the whole engine runs under a virtual clock and a seeded scheduler in
 * tests.
 */

export interface Platform {
  /**
   * Wall clock, epoch milliseconds. It decides something only if this process's clock is the store's clock (SQLite).
   */
  now(): number;
  /** Microseconds that never go back; for measuring handlers and local waits. */
  monotonicUs(): number;
  /** Calls `run` once after at least `delayMs`. A timer that does not keep the process alive is for upkeep only. */
  setTimer(delayMs: number, run: () => void, keepsAlive?: boolean): Timer;
  /** Calls `run` after everything that is already going on in this turn of the event loop. */
  defer(run: () => void): void;
  /** Uniform in [0, 1). */
  random(): number;
  randomBytes(count: number): Uint8Array;
  /** Zstandard, from level 1 on. Other threads do it for large bodies, so the answer may come in any later turn. */
  compress(body: Uint8Array, level: number): Promise<Uint8Array>;
  /** A text that changes when the machine restarts; null where that cannot be known. */
  bootId(): string | null;
  /**
   * Calls `run` on the first SIGTERM or SIGINT; a second signal ends the process as if nobody listened. @returns a
   * function that takes it back.
   */
  onTermination(run: () => void): () => void;
  /** A variable of the environment; a blank one counts as unset. */
  readEnv(name: string): string | undefined;
  /** The addresses of a host. */
  resolveHost(name: string): Promise<readonly string[]>;
  /** What this process takes of the machine's memory. */
  memoryBytes(): number;
  /** Names this process for good, for others on this machine; null where that cannot be known. */
  processKey(): string | null;
  /** Whether the process of that key runs; null if that cannot be known here. */
  isProcessRunning(key: string): boolean | null;
  /** The folder of the system for temporary files. */
  readonly temporaryFolder: string;
  readonly processId: number;
  readonly hostName: string;
}

export interface Timer {
  cancel(): void;
}
