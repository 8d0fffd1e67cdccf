// Schedules from the command line, on a real file.
import { expect, test } from "vitest";
import { job, Millrace } from "../../src/index.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const args = (text: string, store: string): string[] => [...text.split(" "), "--store", store];
const report = job<{ day: string }>("report", { queue: "night" });

async function aScheduled(): Promise<string> {
  const store = aStoreUrl();
  await using mill = await Millrace.open(store, { log: false });
  await mill.schedule("nightly", report, { day: "x" }, { cron: "0 3 * * *", zone: "Europe/Berlin" });
  return store;
}

test("lists schedules, shows one with its next ticks, and says which do not exist", async () => {
  const store = await aScheduled();
  expect((await say(args("schedules", store))).out.split("\n")[1]).toMatch(
    /^nightly +active +0 3 \* \* \* Europe\/Berlin +\d{4}-\d\d-\d\d 0[12]:00:00.000Z +0 +0 +report$/,
  );
  const shown = await sayJson(args("schedules show nightly", store));
  expect(shown).toMatchObject({
    name: "nightly",
    job: { queue: "night", input: { day: "x" } },
    backfill: null,
  });
  expect(shown["upcoming"]).toHaveLength(5);
  const ghost = await say(args("schedules pause ghost", store));
  expect([ghost.code, ghost.err]).toEqual([1, expect.stringMatching(/^millrace: unknown-schedule: /)]);
  expect((await say(args("schedules", aStoreUrl()))).code).toBe(1);
});

test("pauses, resumes, runs, edits, resets and deletes one", async () => {
  const store = await aScheduled();
  expect(await sayJson(args("schedules pause nightly", store))).toMatchObject({
    status: "paused",
    next: null,
  });
  expect(await sayJson(args("schedules resume nightly", store))).toMatchObject({ status: "active" });
  const { lastJob } = await sayJson(args("schedules run nightly", store));
  expect(await sayJson(args(`show ${lastJob as string}`, store))).toMatchObject({
    job: { name: "report", schedule: { name: "nightly", tick: null } },
  });
  const edited = await sayJson(args("schedules edit nightly --every 15m --missed 3 --overlap skip", store));
  expect(edited).toMatchObject({
    rule: { every: 900_000, cron: null },
    missed: { all: 3 },
    overlap: "skip",
    edited: ["rule", "missed", "overlap"],
  });
  expect((await say(args("schedules", store))).out).toMatch(/every 900 s .* edited$/m);
  expect(await sayJson(args("schedules reset nightly", store))).toMatchObject({
    edited: [],
    overlap: "allow",
  });
  expect((await say(args("schedules delete nightly", store))).code).toBe(0);
  expect((await say(args("schedules", store))).out).toBe("no schedules\n");
});

test("begins a backfill, and refuses ranges and rules that make no sense", async () => {
  const store = await aScheduled();
  const begun = await sayJson(
    args("schedules backfill nightly --from 2026-01-01 --to 2026-01-11 --at-once 3", store),
  );
  expect(begun["backfill"]).toMatchObject({ total: 10, fired: 0, atOnce: 3, done: false });
  expect((await say(args("schedules show nightly", store))).out).toContain("backfill 0 of 10, 0 alive");
  const again = await say(args("schedules backfill nightly --from 2026-01-01 --to 2026-01-11", store));
  expect(again.err).toMatch(/^millrace: backfill-running: /);
  expect((await say(args("schedules backfill nightly --from 2026-01-01", store))).err).toContain("--to");
  const zone = await say(args("schedules edit nightly --zone Mars/Olympus", store));
  expect([zone.code, zone.err]).toEqual([1, expect.stringMatching(/^millrace: invalid-schedule: /)]);
});

test("adds one, changes it with the same words, and edits its input", async () => {
  const store = await aScheduled();
  const added = `schedules add hourly --job report --queue night --input {"day":"y"} --every 1h`;
  expect(await sayJson(args(added, store))).toMatchObject({
    ...{ name: "hourly", status: "active", rule: { every: 3_600_000 } },
    job: { name: "report", queue: "night", input: { day: "y" } },
  });
  expect(await sayJson(args(added.replace("1h", "2h"), store))).toMatchObject({ rule: { every: 7_200_000 } });
  const edited = await sayJson(args(`schedules edit nightly --input {"day":"z"}`, store));
  expect(edited).toMatchObject({ edited: ["input"], job: { input: { day: "z" } } });
  expect((await say(args("schedules add more --every 1h", store))).err).toMatch(/needs --job/);
});
