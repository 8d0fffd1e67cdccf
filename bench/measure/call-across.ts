/** Calls from one process to a worker in another: the worker is started first and stopped last. */
import type { Measurement, Outcome } from "./measurement.ts";
import { measureInProcess, startPart } from "./processes.ts";

export async function measureCallsAcross(
  measurement: Measurement,
  profileFolder: string | null,
): Promise<Outcome> {
  const worker = startPart({ ...measurement, work: "call-worker" }, profileFolder, () => {});
  // The tables are there before the second process comes.
  await Promise.race([worker.outcome, worker.ready]);
  const outcome = await Promise.race([worker.outcome, measureInProcess(measurement, profileFolder)]);
  worker.say("stop");
  await worker.outcome;
  return outcome;
}
