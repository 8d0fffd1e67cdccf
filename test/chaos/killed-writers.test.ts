/**
 * Processes that write output are killed -9 again and again, also within a chunk. Readers in another process, which
 * have followed all of it live, show what was said in the end: each frame once, in order, nothing of an attempt that
 * died. So do readers that come later, or go on after any frame that they had.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import type { Frame } from "../../src/index.ts";
import { readToEnd, shownBy } from "../output/read-frames.ts";
import { createTestDatabase, postgresSources } from "../support/servers/postgres-shared.ts";
import type { PostgresSource } from "../support/servers/postgres-shared.ts";
import { testMaxMs } from "../support/hang-ms.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { plainTalk, said, steppedTalk, steps } from "./talk-jobs.ts";

const script = fileURLToPath(new URL("talk-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-talk-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const start = killAfterEach(startScript);
const redis = useSharedRedis();
const kills = Number(process.env["MILLRACE_KILLS"] ?? 3);
const talks = 4;

/** Frames by the part that said them: parallel steps write among each other. */
function byPart(frames: readonly Frame[]): Record<string, unknown[]> {
  const parts: Record<string, unknown[]> = {};
  for (const word of shownBy(frames) as string[]) (parts[word.split(".")[0] ?? ""] ??= []).push(word);
  return parts;
}

test.each([
  [
    "SQLite",
    () => Promise.resolve({ url: `sqlite:${join(folder, "jobs.db")}`, drop: () => Promise.resolve() }),
  ],
  ["Postgres", () => createTestDatabase(postgresSources()[0] as PostgresSource)],
  [
    "Redis",
    () => {
      const [url, prefix] = [new URL(redis.prefixes.url), redis.prefixes.next()];
      url.searchParams.set("prefix", prefix);
      return Promise.resolve({ url: url.href, drop: () => redis.prefixes.clear(prefix) });
    },
  ],
])(
  "on %s readers of killed writers show each frame once",
  async (_, open) => {
    const opened = await open();
    const { url } = opened;
    const mill = await Millrace.open(url, { log: false });
    try {
      const ids = { plain: [] as string[], stepped: [] as string[] };
      for (let n = 0; n < talks; n++) {
        ids.plain.push((await mill.enqueue(plainTalk, { n })).id);
        ids.stepped.push((await mill.enqueue(steppedTalk, { n })).id);
      }
      const all = [...ids.plain, ...ids.stepped];
      const live = Promise.all(all.map((id) => readToEnd(mill, id)));
      for (let kill = 0; kill <= kills; kill++) {
        let words = 0;
        const worker = start(script, [url], () => (words += 1));
        if (kill === kills) break;
        await until("frames are written", () => words > 25);
        await worker.kill();
      }
      const followed = await live;
      for (const [at, id] of all.entries()) {
        const wanted = ids.plain.includes(id)
          ? { plain: said("plain") }
          : Object.fromEntries(steps.map((name) => [name, said(name)]));
        const frames = followed[at] as Frame[];
        expect(byPart(frames)).toEqual(wanted);
        expect(byPart(await readToEnd(mill, id))).toEqual(wanted);
        expect((await mill.output(id)).summary).toEqual({ isWhole: true });
        const middle = Math.floor(frames.length / 2);
        const rest = await readToEnd(mill, id, { from: frames[middle]?.cursor as string });
        expect(byPart([...frames.slice(0, middle + 1), ...rest])).toEqual(wanted);
      }
    } finally {
      await mill.close();
      await opened.drop();
    }
  },
  testMaxMs,
);
