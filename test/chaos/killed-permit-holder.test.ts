/**
 * Processes that hold permits are killed -9. Their leases end by the store's clock, and who waits in another process
 * gets the permits, by nothing but that process's own duties; and at no instant more is held than the cap.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import type { HoldLine } from "./permit-process.ts";
import { hangMs } from "../support/hang-ms.ts";

const script = fileURLToPath(new URL("permit-process.ts", import.meta.url));
const cap = 3;
const folder = mkdtempSync(join(tmpdir(), "millrace-permits-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

let files = 0;
const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, `jobs-${++files}.db`)}`],
  ["Postgres", () => `${database.url}?schema=permits_${++files}`],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
];

interface Hold {
  readonly weight: number;
  readonly key: string | null;
  readonly fromMs: number;
  toMs: number;
}

/** A process, and what it has held so far: until it said so, or until it was killed. */
function startProcess(role: "hold" | "loop" | "keys", url: string) {
  const holds = new Map<number, Hold>();
  const started = startScript(script, [role, url], (text) => {
    const line = JSON.parse(text) as HoldLine | string;
    if (typeof line === "string") return;
    const { hold, weight, key, atMs, isOver } = line;
    if (isOver) holds.get(hold)!.toMs = atMs;
    else holds.set(hold, { weight, key, fromMs: atMs, toMs: Infinity });
  });
  const kill = async (): Promise<void> => {
    await started.kill();
    const killedMs = nowMs();
    for (const each of holds.values()) each.toMs = Math.min(each.toMs, killedMs);
  };
  return { said: started.spoke, holds, kill };
}

/** The most that was held at any instant. */
function mostHeld(holds: readonly Hold[]): number {
  const edges = holds.flatMap(({ weight, fromMs, toMs }) => [
    { atMs: fromMs, by: weight },
    { atMs: toMs, by: -weight },
  ]);
  let [held, most] = [0, 0];
  for (const { by } of edges.toSorted((one, other) => one.atMs - other.atMs || one.by - other.by))
    most = Math.max(most, (held += by));
  return most;
}

describe.each(urls)("on %s", (_store, place) => {
  const closeLater = closeAfterEach();
  const start = killAfterEach(startProcess);

  test("kill -9 of the holder frees its permit, and is no error of a job", async () => {
    const url = place();
    const holder = start("hold", url);
    await holder.said;
    const mill = closeLater(await Millrace.open(url, { log: false }));
    const refused = mill.limits.acquire("slack", { weight: cap, wait: 0 });
    await expect(refused).rejects.toMatchObject({ code: "limit-busy" });
    await holder.kill();
    const permit = await mill.limits.acquire("slack", { weight: cap, wait: hangMs });
    expect(await mill.limits.state("slack")).toMatchObject({ held: cap });
    await permit.release();
    expect([(await mill.limits.state("slack")).held, await mill.jobs.counts()]).toEqual([0, {}]);
  });

  /** What three processes held of which always one is killed, and another one started in its place. */
  const heldOverKills = async (role: "loop" | "keys", url: string): Promise<readonly Hold[]> => {
    const processes = [1, 2, 3].map(() => start(role, url));
    const all = [...processes];
    await Promise.all(all.map(({ said }) => said));
    for (let kills = 0; kills < 4; kills++) {
      const before = all.flatMap(({ holds }) => [...holds.values()]).length;
      await until("they go on", () => all.flatMap(({ holds }) => [...holds.values()]).length > before + 20);
      await processes.shift()?.kill();
      const next = start(role, url);
      processes.push(next);
      all.push(next);
    }
    await Promise.all(processes.map(({ kill }) => kill()));
    const holds = all.flatMap((each) => [...each.holds.values()]);
    expect(holds.length).toBeGreaterThan(80);
    return holds;
  };

  test("over processes that are killed -9 again and again, jobs and permits together never hold more than the cap", async () => {
    const url = place();
    expect(mostHeld(await heldOverKills("loop", url))).toBe(cap);
    const mill = closeLater(await Millrace.open(url, { log: false }));
    await (await mill.limits.acquire("slack", { weight: cap, wait: hangMs })).release();
  });

  test("over processes that are killed -9 again and again, jobs and permits of a key never hold more than its cap", async () => {
    const url = place();
    const holds = await heldOverKills("keys", url);
    const mill = closeLater(await Millrace.open(url, { log: false }));
    const most = new Map<string, number>();
    for (const key of new Set(holds.map((hold) => hold.key ?? ""))) {
      most.set(key, mostHeld(holds.filter((hold) => hold.key === key)));
      await (await mill.limits.acquire("shop", { key, weight: cap, wait: hangMs })).release();
    }
    // Not every key need come to its cap in so short a time.
    expect(Math.max(...most.values()), JSON.stringify([...most])).toBe(cap);
  });
});
