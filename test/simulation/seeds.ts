/**
 * Seeds that once failed, each with what it found. They run for ever, before the others. A seed means the same run only while plan and
 * workload draw in the same order; where that changed, the sentence still says what to look for.
 */
export const pastSeeds: readonly (readonly [seed: number, found: string])[] = [
  [
    1,
    "A worker that was paused past its lease took the same lease again as a lost one and ran the job twice under one fence.",
  ],
  [22, "A claim's late reply and the look for lost leases both handed out the same lease, and both ran it."],
  [24, "Rescheduling a snoozed job burnt the attempt that the snooze had given back."],
  [59, "As 22, with the second run after the first had settled: its settle was answered as already applied."],
];
