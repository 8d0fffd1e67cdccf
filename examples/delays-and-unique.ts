// When jobs run, and how often: delays, priorities, and unique keys that skip, replace or debounce.
import { handler, job, Millrace } from "millrace";

const remind = job<{ text: string }>("remind");
const reindex = job<{ page: string; revision: number }>("reindex", {
  // One job per page, however often the page changes; each change moves it away by the delay.
  unique: { fields: ["page"], window: "queued", policy: "debounce" },
  delay: "200ms",
});

const mill = await Millrace.open("sqlite::memory:");
const startMs = performance.now();
const hasPassed = (ms: number): string => (performance.now() - startMs >= ms ? "in time" : "too early");

const low = await mill.enqueue(remind, { text: "low priority" }, { priority: "low" });
const urgent = await mill.enqueue(remind, { text: "high priority" }, { priority: "high" });
const late = await mill.enqueue(remind, { text: "300 ms later" }, { delay: "300ms" });

const first = await mill.enqueue(remind, { text: "only once" }, { unique: "once", delay: "100ms" });
const second = await mill.enqueue(remind, { text: "only once" }, { unique: "once", delay: "100ms" });
console.log(
  "the second enqueue made a job:",
  second.created,
  "and gave the first one's id:",
  second.id === first.id,
);

const changes = [];
for (let revision = 1; revision <= 5; revision++)
  changes.push(await mill.enqueue(reindex, { page: "/", revision }));
console.log("five changes, jobs:", new Set(changes.map(({ id }) => id)).size);

// One slot, so that the order is the order of priority.
await mill.work(
  [
    handler(remind, ({ input }) => console.log(`reminder: ${input.text}`)),
    handler(reindex, ({ input }) => console.log(`reindexed ${input.page}`)),
  ],
  { concurrency: 1 },
);
for (const handle of [urgent, low, first, late, ...changes]) await handle.result({ timeout: "5s" });
console.log("the late reminder came", hasPassed(300));
await mill.close();
