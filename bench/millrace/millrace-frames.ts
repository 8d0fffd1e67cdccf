/** Output frames of Millrace for the bench. */
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { handler } from "../../src/worker/handler.ts";
import { nowMs, waitMs } from "../measure/clock.ts";
import type { BenchFrames } from "../measure/contender.ts";

/** A word of a language model. */
const frame = "word ";
const flushEvery = 2000;
const pauseMs = 15;

const fastJob = job<{ frames: number }>("bench-frames", { frames: { keep: 10_000 } });
const slowJob = job<{ frames: number }>("bench-frame-times");

interface Listener {
  readonly mill: Millrace;
  /** How often it has read frames from the store. */
  readonly reads: () => number;
}

/** @param openListener another connection. */
export async function openMillraceFrames(
  mill: Millrace,
  openListener: () => Promise<Listener>,
): Promise<BenchFrames> {
  const listener = await openListener();
  const worker = await mill.work([
    handler(fastJob, async ({ input, stream }) => {
      for (let at = 1; at <= input.frames; at++) {
        stream.write(frame);
        if (at % flushEvery === 0) await stream.flush();
      }
    }),
    handler(slowJob, async ({ input, stream }) => {
      for (let at = 0; at < input.frames; at++) {
        stream.write(nowMs());
        await waitMs(pauseMs + Math.random() * pauseMs);
      }
    }),
  ]);
  const readAll = async (id: string, taken: (value: unknown) => void): Promise<void> => {
    for await (const each of listener.mill.frames(id)) if (each.kind === "data") taken(each.value);
  };
  return {
    async write(frames) {
      const startMs = nowMs();
      const { id } = await mill.enqueue(fastJob, { frames });
      await readAll(id, () => {});
      return nowMs() - startMs;
    },
    async delays(samples) {
      const delaysMs: number[] = [];
      const { id } = await mill.enqueue(slowJob, { frames: samples });
      await readAll(id, (value) => delaysMs.push(nowMs() - (value as number)));
      return delaysMs;
    },
    async readsOf(readers, writes) {
      const before = listener.reads();
      const { id } = await mill.enqueue(slowJob, { frames: writes });
      await Promise.all(Array.from({ length: readers }, () => readAll(id, () => {})));
      return listener.reads() - before;
    },
    async close() {
      await worker.stop();
      await listener.mill.close();
    },
  };
}
