// A fan-out of 1,000 jobs of which some may fail: fifty at once, up to ten failures are tolerated, and what comes after
// gets the results of those that completed.
import { flow, handler, job, Millrace } from "millrace";

const listImages = job<{ album: string }, readonly number[]>("list-images");
const shrink = job<number, number>("shrink", { retry: { attempts: 1 } });
const summarise = job<{ bytes: readonly number[] }, string>("summarise");

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work(
  [
    handler(listImages, async () => Array.from({ length: 1000 }, (_, number) => number)),
    handler(shrink, async ({ input }) => {
      if (input % 200 === 7) throw new Error("it is no image");
      return 1024;
    }),
    handler(summarise, async ({ input }) => `${input.bytes.length} images, ${input.bytes.length} KiB`),
  ],
  { concurrency: 100 },
);

const album = flow("shrink-album");
const images = album.add("list", listImages, { album: "summer" });
const shrunk = album.map("shrink", shrink, images.result, { concurrency: 50, tolerate: 10 });
album.add("sum", summarise, { bytes: shrunk.results });

const run = await mill.submit(album);
console.log("result:", await run.result({ timeout: "30s" }));
const failed = (await run.nodes()).filter(({ state }) => state === "failed");
console.log("failed:", failed.map(({ name }) => name).join(", "));
console.log("the flow:", (await run.view()).state);
await mill.close();
