/**
 * A worker process of the test that kills holders of groups and keys: says on its pipe what starts and what ends, and
 * is killed without a word.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { handler, job, limit, Millrace } from "../../src/index.ts";

export interface GroupWork {
  readonly key: string;
  readonly n: number;
}

export interface GroupLine extends GroupWork {
  /** Names the run within its process. */
  readonly run: number;
  readonly kind: "fifo" | "keyed";
  readonly atMs: number;
  readonly isOver: boolean;
}

const retry = { attempts: 20, backoff: { kind: "fixed", delay: 20, jitter: "none" } } as const;
const api = limit("api", { perKey: { concurrency: 2 } });
export const fifo = job<GroupWork>("fifo", { group: { key: ({ key }) => key, concurrency: 1 }, retry });
export const keyed = job<GroupWork>("keyed", { limits: [api.use({ key: ({ key }) => key })], retry });

const [, , url] = process.argv;
if (url !== undefined && import.meta.main) {
  const mill = await Millrace.open(url, { log: false });
  let runs = 0;
  const say = (line: GroupLine | "ready"): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
  const handlers = [fifo, keyed].map((each) =>
    handler(each, async ({ input }) => {
      const run = ++runs;
      const tell = (isOver: boolean): void =>
        say({
          ...input,
          run,
          kind: each === fifo ? "fifo" : "keyed",
          atMs: Number(process.hrtime.bigint()) / 1e6,
          isOver,
        });
      tell(false);
      await sleep(10);
      tell(true);
      if (input.n % 7 === 3 && Math.random() < 0.5) throw new Error("now and then");
    }),
  );
  await mill.work(handlers, { concurrency: 6, lease: "1s" });
  say("ready");
}
