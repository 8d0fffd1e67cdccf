/**
 * A process of the takeover test: it does the duties that one process does for all, until it is killed or told to stop.
 * "sharing": its worker takes part in a total; "working": its worker does not; "duties": it has no worker.
 */
import { writeSync } from "node:fs";
import { handler, job, Millrace } from "../../src/index.ts";

const [role = "", url = ""] = process.argv.slice(2);
const mill = await Millrace.open(url, { log: false });
if (role === "duties") mill.duties.start();
else
  await mill.work([handler(job("any", { queue: "shared" }), async () => undefined)], {
    queues: { shared: role === "sharing" ? { total: 4 } : 4 },
  });
// The timers of duties keep no process alive.
const alive = setInterval(() => {}, 60_000);
process.on("SIGTERM", () => {
  clearInterval(alive);
  void mill.close();
});
writeSync(1, `${process.pid}\n`);
