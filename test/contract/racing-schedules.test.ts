/**
 * Ten processes race for the same ticks on every store, by a clock that the test holds: no tick fires twice and none is
 * lost, also where a process dies between its look and its submit, or never hears what became of the submit.
 */
import { describe, expect, test } from "vitest";
import { MillraceError } from "../../src/model/error.ts";
import { readMeta } from "../../src/model/job/job-meta.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import { job, limit } from "../../src/index.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { findAll } from "../support/walk.ts";

const platform = createHeldPlatform();
const places = usePlaces({ platform, clock: "platform" });
const report = job<number>("report");
const minute = 60_000;
const random = createSeededRandom("racing schedules");

/** One submit in N does not happen, and one happens while its answer is lost. */
function withAccidents(store: Store, share: number): Store {
  return {
    ...store,
    async submit(units) {
      const drawn = random.next();
      if (drawn < share) throw new MillraceError("store-corrupt", "the process died before its submit");
      const answers = await store.submit(units);
      if (drawn < 2 * share) throw new MillraceError("outcome-unknown", "the answer was lost");
      return answers;
    },
  };
}

/** The ticks that have a job, by schedule, in order. */
async function firedTicks(store: Store): Promise<Map<string, number[]>> {
  const ticks = new Map<string, number[]>();
  for (const { meta } of await findAll(store)) {
    const { name, tick } = readMeta(meta).schedule!;
    ticks.set(name, [...(ticks.get(name) ?? []), tick!]);
  }
  return new Map([...ticks].map(([name, all]) => [name, all.sort((one, other) => one - other)]));
}

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  async function openTen(share: number): Promise<{ mills: Millrace[]; store: Store }> {
    const open = place();
    const stores: Store[] = [];
    for (let count = 0; count < 10; count++) stores.push(await open());
    const mills = stores.map((store) =>
      closeLater(millOn(share === 0 ? store : withAccidents(store, share), {}, platform)),
    );
    return { mills, store: stores[0]! };
  }

  const race = (mills: readonly Millrace[]): Promise<unknown> =>
    Promise.all(mills.map((mill) => mill.duties.run("due-documents")));

  test("thousands of ticks fire once each, with processes that die and answers that are lost", async () => {
    const { mills, store } = await openTen(0.03);
    const slack = limit("slack", { concurrency: 5 });
    const schedules = 60;
    const rounds = 40;
    platform.setNow(Math.ceil(platform.now() / minute) * minute);
    const from = platform.now();
    for (let number = 0; number < schedules; number++) {
      const more = number % 3 === 0 ? { limits: [slack] } : {};
      await mills[number % 10]!.schedule(`s${number}`, report, number, { every: "1m", ...more });
    }
    for (let round = 0; round < rounds; round++) {
      platform.advance(minute);
      await race(mills);
      // An accident leaves its tick to the next look, which comes while the tick is on time.
      await race(mills);
      await race(mills);
    }
    const ticks = await firedTicks(store);
    const all = Array.from({ length: rounds }, (_, round) => from + (round + 1) * minute);
    for (let number = 0; number < schedules; number++) expect(ticks.get(`s${number}`)).toEqual(all);
    const views = await mills[0]!.schedules.list();
    expect(views.map(({ fired, skipped }) => [fired, skipped])).toEqual(views.map(() => [rounds, 0]));
  });

  test("pauses, edits, resets and runs by hand beside the firing leave the count of firings exact", async () => {
    const { mills, store } = await openTen(0);
    await mills[0]!.schedule("s", report, 1, { every: "1m" });
    let runs = 0;
    const operate = async (mill: Millrace): Promise<void> => {
      const { schedules } = mill;
      const acts = [
        () => schedules.pause("s"),
        () => schedules.resume("s"),
        () => schedules.resume("s"),
        () => schedules.edit("s", { every: "30s" }),
        () => schedules.edit("s", { every: "2m", overlap: "skip" }),
        () => schedules.reset("s"),
        async () => {
          await schedules.runNow("s");
          runs += 1;
        },
      ];
      await random.pick(acts)();
    };
    for (let round = 0; round < 60; round++) {
      platform.advance(minute / 2);
      await Promise.all(mills.map((mill, at) => (at < 3 ? operate(mill) : mill.duties.run("due-documents"))));
    }
    const fired = (await findAll(store)).map(({ meta }) => readMeta(meta).schedule!.tick);
    const ticks = fired.filter((tick) => tick !== null);
    expect(new Set(ticks).size).toBe(ticks.length);
    expect(fired.length - ticks.length).toBe(runs);
    expect(await mills[0]!.schedules.get("s")).toMatchObject({ fired: ticks.length });
  });
});
