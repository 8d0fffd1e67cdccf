/** Operator changes whose reply was lost, on the reference model, which keeps the token of a job's last change. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import type { Store } from "../../store/store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../../worker/handler.ts";
import type { Millrace } from "../millrace.ts";

const frail = job<null, never>("frail", { retry: { attempts: 1 } });

let platform: VirtualPlatform;
let store: Store;
let mill: Millrace;
let runs: number;
/** What happens between the change and its repeat. */
let meanwhile: () => Promise<unknown>;
beforeEach(() => {
  platform = createVirtualPlatform();
  store = openReference(platform, 1);
  runs = 0;
  meanwhile = async () => undefined;
  mill = millOn(store, {}, platform);
});
afterEach(() => run(mill.close()));

const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
const work = (): Promise<unknown> =>
  run(
    mill.work([
      handler(frail, async () => {
        runs += 1;
        throw new Error("not today");
      }),
    ]),
  );

/** From now on the next change is made and its reply is lost. */
function loseNextReply(): void {
  const changeIf = store.changeIf.bind(store);
  store.changeIf = async (changes) => {
    store.changeIf = changeIf;
    await changeIf(changes);
    await meanwhile();
    throw new MillraceError("outcome-unknown", "the reply was lost");
  };
}

test("a retry whose reply was lost replays the job once and is answered as replayed", async () => {
  const { id } = await run(mill.enqueue(frail, null));
  await work();
  await platform.time.advance(1_000_000);
  expect(runs).toBe(1);
  // The replayed job has failed again before the retry is repeated: the state alone would allow a second replay.
  const failedAgain = async (): Promise<void> => {
    while ((await store.readJobs([id]))[0]?.state !== "failed")
      await new Promise<void>((resolve) => void platform.setTimer(10, resolve));
  };
  meanwhile = failedAgain;
  loseNextReply();
  expect(await run(mill.jobs.retry(id))).toBe("retried");
  await platform.time.advance(10_000_000);
  expect(runs).toBe(2);
});

test("the same call made by the user a second time is another change", async () => {
  const { id } = await run(mill.enqueue(frail, null));
  await work();
  await platform.time.advance(1_000_000);
  for (const runsAfter of [2, 3]) {
    expect(await run(mill.jobs.retry({ state: "failed" }))).toMatchObject({ retried: 1 });
    await platform.time.advance(10_000_000);
    expect(runs).toBe(runsAfter);
  }
  expect((await run(mill.jobs.get(id)))?.state).toBe("failed");
});

test.each<[string, () => Promise<unknown>, string | undefined]>([
  ["cancel", () => mill.jobs.cancel("mine", "enough"), "cancelled"],
  ["runNow", () => mill.jobs.runNow("mine"), "woken"],
  ["edit", () => mill.jobs.edit("mine", { priority: "high" }), undefined],
])("a lost reply of %s is not reported as a refused change", async (_name, act, answer) => {
  await run(mill.enqueue(frail, null, { id: "mine", delay: "1h" }));
  loseNextReply();
  const before = (await store.readJobs(["mine"]))[0]?.rev ?? 0;
  expect(await run(act())).toBe(answer);
  expect((await store.readJobs(["mine"]))[0]?.rev).toBe(before + 1);
});
