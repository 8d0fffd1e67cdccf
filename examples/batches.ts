// A batch handler gets many jobs in one call (one INSERT, one request) and answers for each of them on its own.
import { batchHandler, job, Millrace, Unrecoverable } from "millrace";

const index = job<{ page: number }, { size: number }>("index");

const mill = await Millrace.open("sqlite::memory:", { log: false });
const handles = await mill.enqueueMany(Array.from({ length: 25 }, (_, page) => index.with({ page })));

await mill.work([
  batchHandler(index, { size: 10, wait: "50ms" }, async (jobs) => {
    console.log(`one call for ${jobs.length} pages`);
    return jobs.map(({ input }) =>
      // An error fails that job alone; the others complete.
      input.page === 13 ? new Unrecoverable("page 13 does not exist") : { size: input.page * 100 },
    );
  }),
]);

const ends = await Promise.allSettled(handles.map((handle) => handle.result({ timeout: "5s" })));
console.log("completed:", ends.filter(({ status }) => status === "fulfilled").length);
console.log(
  "failed:",
  ends.findIndex(({ status }) => status === "rejected"),
);
await mill.close();
