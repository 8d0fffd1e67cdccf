// A mill in memory with a worker whose handlers run in sandboxes, closed after its tests.
import { afterAll, beforeAll } from "vitest";
import { fileHandler, Millrace } from "millrace";
import type { FileHandlerOptions, Handler, JobHandle, JobView, WorkerOptions } from "millrace";
import { handlerFile } from "./handlers/file.ts";
import { everything, followUp } from "./handlers/jobs.ts";
import type { Wish } from "./handlers/jobs.ts";
import { hangMs } from "../support/hang-ms.ts";

export function everythingIn(
  run: NonNullable<FileHandlerOptions["run"]>,
  options: Partial<FileHandlerOptions> = {},
): Handler {
  return fileHandler(everything, {
    file: handlerFile("everything"),
    run,
    jobs: [followUp],
    size: 2,
    ...options,
  });
}

export interface WorkedMill {
  readonly mill: Millrace;
  /** Enqueues a wish for the handler. */
  readonly wish: (wish: Wish, options?: object) => Promise<JobHandle>;
  /** Its result once it has run. */
  readonly grant: (wish: Wish, options?: object) => Promise<unknown>;
  /** The job once it has ended, however that was. */
  readonly ended: (wish: Wish, options?: object) => Promise<JobView>;
}

export function useWorkedMill(handlers: () => readonly Handler[], options: WorkerOptions = {}): WorkedMill {
  let mill: Millrace;
  beforeAll(async () => {
    mill = await Millrace.open("sqlite::memory:", { log: false });
    await mill.work(handlers(), options);
  });
  afterAll(() => mill.close());
  const worked: WorkedMill = {
    get mill() {
      return mill;
    },
    wish: (wish, given) => mill.enqueue(everything, wish, given),
    grant: async (wish, given) => (await worked.wish(wish, given)).result({ timeout: hangMs }),
    ended: async (wish, given) => {
      const handle = await worked.wish(wish, given);
      await handle.result({ timeout: hangMs }).catch(() => {});
      return (await mill.jobs.get(handle.id)) as JobView;
    },
  };
  return worked;
}
