/**
 * Draining: workers take jobs that wait already and finish them. This is one process's part; the clock is read from the
 * marks of all (see marks.ts). It ends by itself after `ends`, because a peer's loop may never let a message through
 * while work is left.
 */
import { collectGarbage } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";
import { MarkBook } from "../measure/marks.ts";

export interface DrainPart {
  readonly concurrency: number | null;
  /** At most N ends of attempts are seen here. */
  readonly ends: number;
  /** Resolves when all processes are ready. */
  readonly go: Promise<void>;
  /** Resolves when the processes have finished all jobs together. */
  readonly stop: Promise<void>;
  readonly progress: (total: number) => void;
}

const progressMs = 50;

export async function drainPart(contender: Contender, part: DrainPart): Promise<MarkBook> {
  const book = new MarkBook();
  const { promise: ownShare, resolve } = Promise.withResolvers<void>();
  const finished = (count: number): void => {
    book.add(count);
    if (book.total >= part.ends) resolve();
  };
  collectGarbage();
  await part.go;
  const reporting = setInterval(() => part.progress(book.total), progressMs);
  const workers = await contender.work({ concurrency: part.concurrency, started: () => {}, finished });
  await Promise.race([ownShare, part.stop]);
  await workers.stop();
  clearInterval(reporting);
  return book;
}
