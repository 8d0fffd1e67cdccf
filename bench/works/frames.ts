/**
 * Output frames: how many one stream takes per second, how late a reader on another connection has one, and what a
 * thousand readers of one stream cost: reads of the store per write.
 */
import type { BenchFrames, Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";
import type { Figures } from "../figures.ts";

const readers = 1000;
const warmUpSamples = 10;

async function withFrames<Answer>(
  contender: Contender,
  run: (frames: BenchFrames) => Promise<Answer>,
): Promise<Answer> {
  if (contender.openFrames === undefined) throw new Error("This system is not measured with output frames.");
  const frames = await contender.openFrames();
  const answer = await run(frames);
  await frames.close();
  return answer;
}

/** Frames per second, from the first write until the reader has the last one. */
export function measureFrames(contender: Contender, count: number): Promise<Figures> {
  return withFrames(contender, async (frames) => {
    await frames.write(Math.min(count, 1000));
    return { rate: (count * 1000) / (await frames.write(count)) };
  });
}

export function measureFrameDelay(contender: Contender, samples: number): Promise<Figures> {
  return withFrames(contender, async (frames) => {
    const delaysMs = (await frames.delays(samples + warmUpSamples)).slice(warmUpSamples);
    return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
  });
}

/** Store reads of all readers together, per write of the stream. */
export function measureFrameReaders(contender: Contender, writes: number): Promise<Figures> {
  return withFrames(contender, async (frames) => ({
    rate: (await frames.readsOf(readers, writes)) / writes,
  }));
}
