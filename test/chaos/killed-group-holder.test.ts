/**
 * Workers that hold groups and keys of limits are killed -9 again and again, judged by a sweep over all that ran in all
 * processes: at no instant more of a key than its cap, and a group of one at a time in its order, whoever dies.
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
import { fifo, keyed } from "./group-process.ts";
import type { GroupLine } from "./group-process.ts";

const script = fileURLToPath(new URL("group-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-groups-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
/** `perRound`: of each kind and key enqueued before each kill, so that there is always work to go on with. */
const [keys, perRound, kills] = [["a", "b", "c", "d"], 12, 4];

let files = 0;
const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, `jobs-${++files}.db`)}`],
  ["Postgres", () => `${database.url}?schema=groups_${++files}`],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
];

interface Run extends Pick<GroupLine, "kind" | "key" | "n"> {
  readonly fromMs: number;
  toMs: number;
}

/** A worker process, and what it has run so far: until it said so, or until it was killed. */
function startProcess(url: string) {
  const runs = new Map<number, Run>();
  const started = startScript(script, [url], (text) => {
    const line = JSON.parse(text) as GroupLine | "ready";
    if (line === "ready") return;
    const { run, kind, key, n, atMs, isOver } = line;
    if (isOver) runs.get(run)!.toMs = atMs;
    else runs.set(run, { kind, key, n, fromMs: atMs, toMs: Infinity });
  });
  const kill = async (): Promise<void> => {
    await started.kill();
    const killedMs = Number(process.hrtime.bigint()) / 1e6;
    for (const run of runs.values()) run.toMs = Math.min(run.toMs, killedMs);
  };
  return { isReady: started.spoke, runs, kill };
}

/** The most that ran at any instant. */
function mostAtOnce(runs: readonly Run[]): number {
  const edges = runs.flatMap(({ fromMs, toMs }) => [
    { atMs: fromMs, by: 1 },
    { atMs: toMs, by: -1 },
  ]);
  let [running, most] = [0, 0];
  for (const { by } of edges.toSorted((one, other) => one.atMs - other.atMs || one.by - other.by))
    most = Math.max(most, (running += by));
  return most;
}

describe.each(urls)("on %s", (_store, place) => {
  const closeLater = closeAfterEach();
  const start = killAfterEach(startProcess);

  test("what dies with its worker keeps its place, and no key runs more than it may", async () => {
    const url = place();
    const mill = closeLater(await Millrace.open(url, { log: false }));
    const enqueueRound = async (round: number): Promise<void> => {
      const numbers = Array.from({ length: perRound }, (_, n) => round * perRound + n);
      for (const definition of [fifo, keyed])
        await mill.enqueueMany(numbers.flatMap((n) => keys.map((key) => definition.with({ key, n }))));
    };
    const alive = [1, 2, 3].map(() => start(url));
    const all = [...alive];
    await Promise.all(all.map(({ isReady }) => isReady));
    const ran = (): Run[] => all.flatMap(({ runs }) => [...runs.values()]);
    for (let killed = 0; killed < kills; killed++) {
      const before = ran().length;
      await enqueueRound(killed);
      await until("they go on", () => ran().length > before + 30);
      await alive.shift()!.kill();
      const next = start(url);
      alive.push(next);
      all.push(next);
    }
    const isOver = async (): Promise<boolean> =>
      ((await mill.jobs.counts())["default"]?.completed ?? 0) === 2 * keys.length * perRound * kills;
    await until("all are done", isOver);
    await Promise.all(alive.map(({ kill }) => kill()));
    for (const key of keys) {
      const ofKind = (kind: GroupLine["kind"]): Run[] =>
        ran()
          .filter((run) => run.kind === kind && run.key === key)
          .toSorted((one, other) => one.fromMs - other.fromMs);
      const order = ofKind("fifo").map(({ n }) => n);
      expect(order).toEqual(order.toSorted((one, other) => one - other));
      expect([mostAtOnce(ofKind("fifo")), mostAtOnce(ofKind("keyed"))]).toEqual([1, 2]);
    }
  });
});
