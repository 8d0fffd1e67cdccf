// A store without a database: a folder here, "s3://bucket/prefix" and its like in production. One process writes,
// others look through a view, and every request is counted. Run it: node examples/bucket.ts
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { handler, job, Millrace } from "millrace";

const thumbnail = job<{ image: string }, string>("thumbnail");
const folder = mkdtempSync(join(tmpdir(), "millrace-example-"));
const url = pathToFileURL(join(folder, "jobs")).href;

// The first writer enqueues and closes. An acknowledged job has landed in the bucket.
const first = await Millrace.open(url);
for (const image of ["cat", "dog", "owl"]) await first.enqueue(thumbnail, { image });
await first.close();

// The local copy is gone; the next writer reads the bucket and goes on under a higher epoch.
const mill = await Millrace.open(url);
await mill.work([handler(thumbnail, ({ input }) => `${input.image}-small`)]);
const handles = (await mill.jobs.list()).jobs.map(({ id }) => mill.handle<string>(id));
const results = await Promise.all(handles.map((handle) => handle.result()));
console.log("thumbnails:", results.sort().join(", "));

// Anybody may look meanwhile. A view follows the log, fences nobody and changes nothing.
const view = await Millrace.open(url, { bucket: { view: true } });
console.log("completed, seen through a view:", (await view.jobs.list({ state: "completed" })).jobs.length);
const refused = await view.enqueue(thumbnail, { image: "fox" }).catch((error: unknown) => error);
console.log("an enqueue there:", (refused as { code: string }).code);
await view.close();

const requests = await mill.metrics.requests();
console.log(
  `so far ${requests?.put} PUT, ${requests?.get} GET and ${requests?.list} LIST, for ${requests?.cost.toFixed(6)}`,
);
await mill.close();
rmSync(folder, { recursive: true });
