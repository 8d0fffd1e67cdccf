/** Log lines of a job: the line that stands for those beyond the maximum. */

export function overflowLine(linesMax: number): string {
  return `Further log lines were dropped: a job keeps at most ${linesMax}.`;
}
