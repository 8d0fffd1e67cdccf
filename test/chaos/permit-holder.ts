/** A process that takes a permit, says so, and holds it until it is killed. */
import { limit, Millrace } from "../../src/index.ts";

const [url = ""] = process.argv.slice(2);
const mill = await Millrace.open(url, { log: false });
await mill.limits.acquire(limit("slack", { concurrency: 2 }), { weight: 2, lease: "1s" });
void mill.limits.acquire("slack", { wait: "10m" });
process.stdout.write("held\n");
