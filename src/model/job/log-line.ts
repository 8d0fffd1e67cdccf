/** Log lines of a job: what stands where more were written than a job keeps. */

export function overflowLine(linesMax: number): string {
  return `Further log lines were dropped: a job keeps at most ${linesMax}.`;
}
