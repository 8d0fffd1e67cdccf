/** What doctor found, and what to do about it. */
export interface Finding {
  readonly check: string;
  readonly problem: string;
  readonly advice: string;
}
