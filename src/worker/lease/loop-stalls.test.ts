/** A process whose event loop stands still for longer than its leases, beside one that goes on. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { SimProcess } from "../../../test/simulation/actors/sim-process.ts";
import { deferred, openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { VirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { LogFields } from "../../engine/log/logger.ts";
import { createSeededRandom } from "../../testing/seeded-random.ts";
import { handler } from "../handler.ts";

const crunch = job<null, string>("crunch", { retry: { attempts: 1 } });
let v: VirtualMill;
let stalled: SimProcess;
let mill: Millrace;
let lines: { readonly line: string; readonly fields: LogFields | undefined }[];
beforeEach(async () => {
  v = await openVirtualMill();
  const clock = { offsetMs: 0, drift: 0 };
  const random = createSeededRandom("stalled");
  stalled = new SimProcess({ name: "stalled", time: v.platform.time, random, clock, processId: 2 });
  lines = [];
  const note = (line: string, fields?: LogFields): void => void lines.push({ line, fields });
  const log = { debug: () => undefined, info: () => undefined, warn: note, error: note };
  mill = millOn({ ...v.store, close: async () => undefined }, { log, duties: false }, stalled.platform);
});
afterEach(async () => {
  await v.run(mill.close());
  await v.close();
});

const told = (): readonly (LogFields | undefined)[] =>
  lines.filter(({ line }) => line.includes("stood still")).map(({ fields }) => fields);

async function standStill(ms: number, meanwhile = (): void => undefined): Promise<void> {
  stalled.pause();
  meanwhile();
  await v.advance(ms);
  stalled.resume();
  await v.advance(5000);
}

async function start(run: (signal: AbortSignal) => Promise<string>): Promise<string> {
  const started = deferred();
  const crunching = handler(crunch, ({ signal }) => (started.resolve(), run(signal)));
  await v.run(mill.work([crunching], { lease: "3s" }));
  const { id } = await v.run(mill.enqueue(crunch, null));
  await v.run(started.promise);
  await v.advance(1000);
  v.mill.duties.start();
  return id;
}

test("the worker that lost its lease says so, with the job's name and for how long, and is not called crashed", async () => {
  const id = await start(
    (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  await standStill(20_000);
  expect(told()).toEqual([
    expect.objectContaining({ id, name: "crunch", attempt: 1, stoodStillMs: expect.any(Number) }),
  ]);
  expect(told()[0]?.["stoodStillMs"]).toBeGreaterThan(19_000);
  expect(told()[0]?.["stoodStillMs"]).toBeLessThanOrEqual(20_000);
  expect((await v.run(v.mill.jobs.get(id)))?.failures).toMatchObject([{ outcome: "lease-expired" }]);
});

test("it says so too where the handler ends with the stall and its result is refused", async () => {
  const end = deferred<string>();
  const id = await start(() => end.promise);
  await standStill(20_000, () => end.resolve("too late"));
  expect(told()).toEqual([expect.objectContaining({ id, name: "crunch" })]);
});

test("a stall that costs no lease is not logged", async () => {
  const end = deferred<string>();
  await start(() => end.promise);
  await standStill(1500);
  end.resolve("in time");
  await v.advance(1000);
  expect(told()).toEqual([]);
});
