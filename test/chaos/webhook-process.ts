/**
 * A process of the test of killed webhooks: runs the duties, which deliver, says so, and goes on until it is killed.
 */
import { writeSync } from "node:fs";
import { Millrace } from "../../src/index.ts";

const [url = ""] = process.argv.slice(2);
const mill = await Millrace.open(url, {
  log: false,
  webhooks: { allowPrivate: ["127.0.0.1"] },
  duties: { webhooks: { sleep: "50ms" } },
});
mill.duties.start();
// The timers of duties keep no process alive.
setInterval(() => {}, 60_000);
writeSync(1, "delivers\n");
