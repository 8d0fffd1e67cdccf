// How a running handler is stopped: its AbortSignal fires once and says why.
import { setTimeout as sleep } from "node:timers/promises";
import { handler, job, Millrace } from "millrace";
import type { AttemptAborted } from "millrace";

const crawl = job<{ site: string }>("crawl", { retry: { attempts: 2, backoff: "50ms" } });

const started = new Map<string, () => void>();
const whenStarted = (site: string): Promise<void> => new Promise((resolve) => started.set(site, resolve));

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(crawl, async ({ input, attempt, signal }) => {
    started.get(input.site)?.();
    try {
      // fetch, database drivers and timers take a signal; code of your own can look at signal.aborted.
      await sleep(60_000, undefined, { signal });
    } catch (error) {
      const { reason } = signal.reason as AttemptAborted;
      console.log(`${input.site}, attempt ${attempt}: aborted by ${reason}`);
      throw error;
    }
  }),
]);

const isRunning = whenStarted("a.example");
const cancelled = await mill.enqueue(crawl, { site: "a.example" }, { tags: ["campaign-7"] });
await isRunning;
console.log(
  "cancel by tag:",
  JSON.stringify(await mill.jobs.cancel({ tag: "campaign-7" }, "campaign ended")),
);

const timedOut = await mill.enqueue(crawl, { site: "b.example" }, { timeout: "100ms" });
const expired = await mill.enqueue(crawl, { site: "c.example" }, { deadline: "150ms" });
const waiting = await mill.enqueue(crawl, { site: "d.example" }, { delay: "1h" });
console.log("cancel of a waiting job:", await mill.jobs.cancel(waiting.id));

for (const handle of [cancelled, timedOut, expired, waiting]) {
  await handle.result({ timeout: "5s" }).catch(() => undefined);
  const { state, reason } = (await mill.jobs.get(handle.id)) ?? {};
  console.log(`-> ${state} (${reason})`);
}
await mill.close();
