/**
 * Processes that fire schedules are killed -9, some of them between their look and their submit. No tick fires twice
 * and none is lost, by nothing but the duties of the processes that are left.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { job, Millrace } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";

const script = fileURLToPath(new URL("schedule-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-schedules-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const report = job<number>("report");
const schedules = 20;
const ticksWanted = 10;
/** How many ticks ten processes race for; MILLRACE_TICKS=10000 is what is promised. */
const racedTicks = Number(process.env["MILLRACE_TICKS"] ?? 0);
const racers = 10;
/** On a busy machine processes may be late: none of the ticks is passed over for that. */
const missed = { all: 500 };

let files = 0;
const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, `jobs-${++files}.db`)}`],
  ["Postgres", () => `${database.url}?schema=schedules_${++files}`],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
  ["Redis in four partitions", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}&partitions=4`],
];

function startProcess(role: "fires" | "halts", url: string) {
  const said = new Set<string>();
  const { kill } = startScript(script, [role, url], (line) => said.add(line));
  return { said, kill };
}

describe.each(urls)("on %s", (_store, place) => {
  const closeLater = closeAfterEach();
  const start = killAfterEach(startProcess);

  test("every tick has one job, whoever is killed when", async () => {
    const url = place();
    const mill = closeLater(await Millrace.open(url, { log: false }));
    for (let number = 0; number < schedules; number++)
      await mill.schedule(`s${number}`, report, number, { every: "1s", missed });
    let firing = start("fires", url);
    const fewest = async (): Promise<number> =>
      Math.min(...(await mill.schedules.list()).map(({ fired }) => fired));
    for (let round = 1; round <= 3; round++) {
      const halting = start("halts", url);
      await until("the next process fires", () => halting.said.has("fires"));
      await firing.kill();
      // Alone now, it looks at what is due and never submits.
      await until("it stands between look and submit", () => halting.said.has("read, not submitted"));
      firing = start("fires", url);
      await until("another one fires", () => firing.said.has("fires"));
      await halting.kill();
      const wanted = (ticksWanted / 3) * round;
      await until("ticks have fired", async () => (await fewest()) >= wanted);
    }
    await firing.kill();
    expect(await checkTicks(mill)).toBeGreaterThanOrEqual(schedules * ticksWanted);
  });

  test.skipIf(racedTicks === 0)(
    `${racedTicks} ticks raced by ten processes have one job each (skipped unless MILLRACE_TICKS says how many)`,
    { timeout: 600_000 },
    async () => {
      const url = place();
      const mill = closeLater(await Millrace.open(url, { log: false }));
      const count = Math.ceil(racedTicks / 40);
      for (let number = 0; number < count; number++)
        await mill.schedule(`s${number}`, report, number, { every: "1s", missed });
      const all = Array.from({ length: racers }, () => start("fires", url));
      await until("all race", () => all.every(({ said }) => said.has("fires")), 200_000);
      const fired = async (): Promise<number> =>
        (await mill.schedules.list()).reduce((sum, each) => sum + each.fired, 0);
      await until("all ticks have fired", async () => (await fired()) >= racedTicks, 500_000);
      await Promise.all(all.map(({ kill }) => kill()));
      const raced = await checkTicks(mill);
      console.log(`${raced} ticks, one job each`);
      expect(raced).toBeGreaterThanOrEqual(racedTicks);
    },
  );
});

/** Every tick of every schedule has one job, and none is left out. @returns how many there are. */
async function checkTicks(mill: Millrace): Promise<number> {
  const ticks = new Map<string, number[]>();
  for await (const { schedule } of allJobs(mill)) {
    const own = ticks.get(schedule!.name) ?? [];
    ticks.set(schedule!.name, own);
    own.push(schedule!.tick!.getTime());
  }
  let count = 0;
  for (const { name, fired, skipped, lastTick } of await mill.schedules.list()) {
    const own = (ticks.get(name) ?? []).toSorted((one, other) => one - other);
    expect([own.length, new Set(own).size, skipped], name).toEqual([fired, fired, 0]);
    expect(own.at(-1)).toBe(lastTick!.getTime());
    expect(own.at(-1)! - own[0]!, `${name} has no gap`).toBe((fired - 1) * 1000);
    count += fired;
  }
  return count;
}

async function* allJobs(mill: Millrace) {
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Millrace["jobs"]["list"]>> = await mill.jobs.list({ limit: 500, cursor });
    yield* page.jobs;
    cursor = page.cursor;
  } while (cursor !== null);
}
