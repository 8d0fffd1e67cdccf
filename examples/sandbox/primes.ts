// A handler in a file of its own, so that it can run in a thread or a child process: see ../sandboxed-handlers.ts.
import type { JobContext } from "millrace";

export default async function countPrimes({ input, signal }: JobContext<{ below: number }>): Promise<number> {
  let found = 0;
  for (let number = 2; number < input.below; number++) {
    if (signal.aborted) throw signal.reason;
    let divisor = 2;
    while (divisor * divisor <= number && number % divisor !== 0) divisor += 1;
    if (divisor * divisor > number) found += 1;
  }
  return found;
}
