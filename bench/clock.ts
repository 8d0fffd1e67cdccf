/** Time as the measuring processes see it: monotonic and the same in every process of the machine. */

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function waitMs(delayMs: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, delayMs));
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** A heap without garbage of the set-up. The measuring processes run with --expose-gc. */
export function collectGarbage(): void {
  (globalThis as { gc?: () => void }).gc?.();
}
