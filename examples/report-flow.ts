// A flow: fetch rows, render a page of each, merge the pages, and tell somebody where that did not work. The whole
// graph is submitted in one step; a node starts once what it comes after has ended as it should.
import { flow, handler, job, Millrace } from "millrace";

const fetchRows = job<{ month: string }, { pages: readonly number[] }>("fetch-rows", {
  retry: { attempts: 1 },
});
const renderPage = job<number, string>("render-page");
const mergePages = job<{ month: string; pages: readonly string[] }, string>("merge-pages");
const notify = job<{ text: string }>("notify");

let isDown = true;
const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(fetchRows, async () => {
    if (isDown) throw new Error("the warehouse is down");
    return { pages: [1, 2, 3] };
  }),
  handler(renderPage, async ({ input }) => `page ${input}`),
  handler(mergePages, async ({ input }) => `${input.month}: ${input.pages.join(", ")}`),
  handler(notify, ({ input }) => console.log(`notify: ${input.text}`)),
]);

const month = "2026-10";
const report = flow("monthly-report");
const rows = report.add("fetch", fetchRows, { month });
// What stands for a result is put in when the node starts; it also says what the node comes after.
const pages = report.map("render", renderPage, rows.result.pages, { concurrency: 2 });
const merged = report.add("merge", mergePages, { month, pages: pages.results });
report.add(
  "tell",
  notify,
  { text: `the report of ${month} failed` },
  { afterFailureOf: [rows, merged], join: "any" },
);

const run = await mill.submit(report);
await run
  .result({ timeout: "10s" })
  .catch((error: Error) => console.log(error.message.replace(/^.*: fetch/, "fetch")));
for (const { name, state } of await run.nodes()) console.log(`${name} ${state}`);

isDown = false;
console.log("run again:", await run.retry());
console.log("result:", await run.result({ timeout: "10s" }));
await mill.close();
