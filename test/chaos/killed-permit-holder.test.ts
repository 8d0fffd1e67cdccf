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
function startProcess(role: "hold" | "loop", url: string) {
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

  test("over processes that are killed -9 again and again, jobs and permits together never hold more than the cap of a limit, nor of a key", async () => {
    const url = place();
    const processes = [1, 2, 3].map(() => start("loop", url));
    const all = [...processes];
    const holdsOf = (fits: (hold: Hold) => boolean): Hold[] =>
      all.flatMap(({ holds }) => [...holds.values()].filter(fits));
    const ofLimit = (): Hold[] => holdsOf((hold) => hold.key === null);
    const ofKeys = (): Hold[] => holdsOf((hold) => hold.key !== null);
    await Promise.all(all.map(({ said }) => said));
    for (let kills = 0; kills < 4; kills++) {
      const before = [ofLimit().length, ofKeys().length] as const;
      const goOn = (): boolean => ofLimit().length > before[0] + 20 && ofKeys().length > before[1] + 20;
      await until("they go on", goOn);
      await processes.shift()?.kill();
      const next = start("loop", url);
      processes.push(next);
      all.push(next);
    }
    await Promise.all(processes.map(({ kill }) => kill()));
    expect(mostHeld(ofLimit())).toBe(cap);
    const held = Map.groupBy(ofKeys(), ({ key }) => key ?? "");
    const most = [...held].map(([key, holds]) => [key, mostHeld(holds)] as const);
    // Not every key need come to its cap in so short a time.
    expect(Math.max(...most.map(([, weight]) => weight)), JSON.stringify(most)).toBe(cap);
    const mill = closeLater(await Millrace.open(url, { log: false }));
    await (await mill.limits.acquire("slack", { weight: cap, wait: hangMs })).release();
    for (const key of held.keys())
      await (await mill.limits.acquire("shop", { key, weight: cap, wait: hangMs })).release();
  });
});
