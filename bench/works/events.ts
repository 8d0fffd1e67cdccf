/**
 * Events: how late a listener in another connection hears of a settle, and how fast a long feed is read. The drain with
 * listeners in other processes is a drain (drain.ts); `listenWhile` is what such a process does.
 */
import { waitMs } from "../measure/clock.ts";
import { enqueueInBulk } from "../measure/contender.ts";
import type { Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";
import type { Figures, Mode } from "../figures.ts";
import { makeInput } from "../measure/input.ts";

const pauseMs = 15;
/** A listener that polls must not always be met at the same point of its interval. */
const strayMs = 10;
const warmUpSamples = 20;

interface ListenPart {
  readonly mode: Mode;
  /** So many jobs wait to be drained. */
  readonly jobs: number;
  /**
   * Called once it listens. One that takes everything has read the jobs that wait by then, as one that was there
   * before.
   */
  readonly ready: () => void;
  readonly stop: Promise<void>;
}

/** Takes every event, or every failure, until it is told to stop; in one mode ten times. */
export async function listenWhile(
  contender: Contender,
  { mode, jobs, ready, stop }: ListenPart,
): Promise<void> {
  const isAlarm = mode === "10-alarms";
  const listening = await listenOf(contender)(isAlarm ? "now" : "start", isAlarm ? "failures" : "all");
  void stop.then(() => listening.close());
  let behind = mode === "10-in-one" ? 10 : 1;
  const caughtUp = (): void => void (--behind === 0 && ready());
  const listen = async (): Promise<void> => {
    const events = await listening.events();
    if (isAlarm) caughtUp();
    let waiting = 0;
    for await (const { kind } of events) if (kind === "submitted" && ++waiting === jobs) caughtUp();
  };
  await Promise.all(Array.from({ length: behind }, listen));
}

/** From the store's time of the settle until another connection has its event; both are of one machine. */
export async function measureEventDelay(contender: Contender, samples: number): Promise<Figures> {
  const listening = await listenOf(contender)("now");
  const events = await listening.events();
  const workers = await contender.work({ concurrency: 1, started: () => {}, finished: () => {} });
  const delaysMs: number[] = [];
  let heard = (): void => {};
  const hearing = (async () => {
    for await (const { kind, at } of events) {
      if (kind !== "completed") continue;
      delaysMs.push(performance.timeOrigin + performance.now() - at.getTime());
      heard();
    }
  })();
  for (let number = 0; number < samples + warmUpSamples; number++) {
    await waitMs(pauseMs + Math.random() * strayMs);
    const told = new Promise<void>((resolve) => (heard = resolve));
    await contender.enqueue(makeInput(number));
    await told;
  }
  await workers.stop();
  await listening.close();
  await hearing;
  const measured = delaysMs.slice(warmUpSamples);
  return { p50Ms: percentile(measured, 0.5), p99Ms: percentile(measured, 0.99) };
}

/** Events per second, from the start of a feed that these jobs have filled: submitted, claimed, started, completed. */
export async function measureEventRead(contender: Contender, jobs: number): Promise<Figures> {
  await enqueueInBulk(contender, jobs);
  await contender.finishAll(jobs);
  const listening = await listenOf(contender)("start");
  let [events, completed] = [0, 0];
  const beganMs = performance.now();
  for await (const { kind } of await listening.events()) {
    events += 1;
    if (kind === "completed") completed += 1;
    if (completed === jobs) break;
  }
  const tookMs = performance.now() - beganMs;
  await listening.close();
  return { rate: (events * 1000) / tookMs };
}

function listenOf(contender: Contender): NonNullable<Contender["listen"]> {
  if (contender.listen === undefined) throw new Error("This system is not measured with events.");
  return contender.listen;
}
