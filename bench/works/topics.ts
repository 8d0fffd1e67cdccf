/**
 * Topics: how many jobs publishes make per second, each publish a job for each of ten subscriptions, many in flight; in
 * turns with the same jobs by enqueueMany of ten (mode "plain-jobs"). Every job counted was acknowledged before the
 * clock stopped.
 */
import { collectGarbage, nowMs } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";
import { makeInput } from "../measure/input.ts";

const subscriptions = 10;
const warmUpPublishes = 200;

export async function measureTopics(
  contender: Contender,
  {
    jobs,
    inFlight,
    byTopic,
  }: { readonly jobs: number; readonly inFlight: number; readonly byTopic: boolean },
): Promise<{ readonly rate: number }> {
  const { topics } = contender;
  if (topics === undefined) throw new Error("This system is not measured with topics.");
  await topics.subscribe(subscriptions);
  const make = async (number: number): Promise<unknown> =>
    byTopic
      ? topics.publish(makeInput(number))
      : contender.enqueueMany(Array.from({ length: subscriptions }, () => makeInput(number)));
  const run = async (count: number): Promise<void> => {
    for (let from = 0; from < count; from += inFlight)
      await Promise.all(
        Array.from({ length: Math.min(inFlight, count - from) }, (_, number) => make(from + number)),
      );
  };
  const publishes = Math.ceil(jobs / subscriptions);
  await run(Math.min(warmUpPublishes, publishes));
  collectGarbage();
  const startMs = nowMs();
  await run(publishes);
  return { rate: (publishes * subscriptions * 1000) / (nowMs() - startMs) };
}
