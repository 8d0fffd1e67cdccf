/** A process of the test of killed writers: works on jobs that write frames, and goes on until it is killed. */
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { handler, Millrace } from "../../src/index.ts";
import type { JobStream } from "../../src/index.ts";
import { plainTalk, said, steppedTalk, steps } from "./talk-jobs.ts";

const [url = ""] = process.argv.slice(2);
const mill = await Millrace.open(url, { log: false });

async function talk(part: string, stream: JobStream): Promise<void> {
  for (const word of said(part)) {
    stream.write(word);
    writeSync(1, "word\n");
    await sleep(8);
  }
}

await mill.work(
  [
    handler(plainTalk, async ({ stream }) => {
      await talk("plain", stream);
      stream.summary({ isWhole: true });
    }),
    handler(steppedTalk, async ({ stream, step }) => {
      const [first = "", ...others] = steps;
      await step.run(first, () => talk(first, stream));
      await Promise.all(others.map((name) => step.run(name, () => talk(name, stream))));
      stream.summary({ isWhole: true });
    }),
  ],
  { lease: "400ms", concurrency: 20 },
);
