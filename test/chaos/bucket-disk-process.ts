/**
 * A process whose files cannot grow beyond a limit that its shell has set, or whose disk is small: it enqueues until it
 * was refused several times, and says what was acknowledged. What it leaves is looked at by the test.
 */
import { isMillraceError } from "../../src/model/error.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { openMillrace } from "../../src/open.ts";

const [, , url, cacheFolder, refusalsMax] = process.argv as [string, string, string, string, string];
const work = job<string>("work");
const mill = await openMillrace(url, { log: false, giveUp: 0, metrics: false, bucket: { cacheFolder } });
const acknowledged: string[] = [];
const refusals: string[] = [];
for (let at = 0; refusals.length < Number(refusalsMax); at++) {
  const id = `job-${at}`;
  try {
    await mill.enqueue(work, `${at} `.repeat(15_000), { id });
    acknowledged.push(id);
  } catch (error) {
    refusals.push(isMillraceError(error) ? `${error.code} ${error.outcome}` : String(error));
  }
}
process.stdout.write(JSON.stringify({ acknowledged, refusals }));
process.exit(0);
