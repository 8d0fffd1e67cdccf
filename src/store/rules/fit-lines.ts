/** Which log lines of a job are kept: the first N; the last of them then says that there were more. */
import { storeLimits } from "../contract-limits.ts";

export interface FittedLine {
  /** From 1 on. An existing number is overwritten. */
  readonly number: number;
  readonly body: string;
}

const linesMax = storeLimits.logLinesPerJobMax;

/**
 * `last` is the number of the job's last line, 0 for none; `overflow` the line that replaces the last one that fits.
 */
export function fitLines(last: number, lines: readonly string[], overflow: string | undefined): FittedLine[] {
  const fitting = lines.slice(0, linesMax - last);
  const fitted = fitting.map((body, at) => ({ number: last + 1 + at, body }));
  if (fitting.length === lines.length || overflow === undefined) return fitted;
  return [...fitted.slice(0, linesMax - 1 - last), { number: linesMax, body: overflow }];
}
