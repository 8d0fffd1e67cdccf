// onSettled: every attempt that ran is told once, when the store has its end.
import { expect, test } from "vitest";
import { openVirtualMill } from "../../test/support/virtual-mill.ts";
import { useVirtualMill } from "../../test/support/use-virtual-mill.ts";
import { job } from "../engine/definition.ts";
import { Snooze } from "./control.ts";
import { handler } from "./handler.ts";
import type { SettledAttempt } from "./settled-attempt.ts";

const v = useVirtualMill();

test("onSettled tells of failures, retries, snoozes and ends, with names and times", async () => {
  const told: SettledAttempt[] = [];
  const work = job<null>("work", {
    queue: "q",
    retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
  });
  let calls = 0;
  const works = handler(work, () => {
    calls += 1;
    if (calls === 1) throw new Error("not yet");
    if (calls === 2) throw new Snooze("1s");
    return calls;
  });
  await v.run(v.mill.work([works], { onSettled: (settled) => void told.push(settled) }));
  const handle = await v.run(v.mill.enqueue(work, null));
  await v.run(handle.result());
  expect(told.map(({ event, state, attempt }) => [event, state, attempt])).toEqual([
    ["retry-scheduled", "scheduled", 1],
    ["snoozed", "scheduled", 2],
    ["completed", "completed", 2],
  ]);
  expect(told[2]).toEqual({
    id: handle.id,
    name: "work",
    queue: "q",
    attempt: 2,
    state: "completed",
    event: "completed",
    reason: null,
    waitedUs: expect.any(Number),
    ranUs: expect.any(Number),
  });
});

test("an onSettled that throws is logged and touches no job; one that is no function is refused", async () => {
  const lines: string[] = [];
  const log = { debug() {}, info() {}, warn() {}, error: (message: string) => void lines.push(message) };
  const w = await openVirtualMill({ log });
  const work = job("work");
  const onSettled = (): never => {
    throw new Error("meter away");
  };
  await w.run(w.mill.work([handler(work, () => 1)], { onSettled }));
  const handle = await w.run(w.mill.enqueue(work, undefined));
  expect(await w.run(handle.result())).toBe(1);
  expect(lines).toEqual(["onSettled threw; the job is settled all the same"]);
  const refused = w.mill.work([handler(work, () => 1)], { onSettled: 1 as never });
  await expect(refused).rejects.toMatchObject({ code: "invalid-option" });
  await w.run(w.mill.close());
});
