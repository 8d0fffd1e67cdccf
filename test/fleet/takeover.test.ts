/**
 * The duties that one process does for all are taken over by another when it is killed and when it stops: real
 * processes on each store, with and without workers. How soon is checked on the virtual clock
 * (prompt-heartbeats.test.ts).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { leaderId } from "../../src/engine/fleet/leadership.ts";
import { registryKind } from "../../src/engine/fleet/registration.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { testMaxMs } from "../support/hang-ms.ts";
import { startScript } from "../support/start-script.ts";
import type { StartedScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";

const script = fileURLToPath(new URL("upkeep-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-takeover-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
/** How often a leader is killed in a row; MILLRACE_TRIES=20 is what is promised. */
const tries = Number(process.env["MILLRACE_TRIES"] ?? 1);

let places = 0;
const onRedis = (): string => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`;
const stores: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, `jobs-${++places}.db`)}`],
  ["Postgres", () => `${database.url}?schema=takeover_${++places}`],
  ["Redis", onRedis],
  ["Redis in four partitions", () => `${onRedis()}&partitions=4`],
];
const roles = ["sharing", "working", "duties"];
const isLong = tries > 1;
/** A usual run has one role on each store. */
const cases = stores.flatMap(([store, url], at) =>
  roles
    .filter((_, number) => isLong || number === at % roles.length)
    .map((role): [store: string, role: string, url: () => string] => [store, role, url]),
);

class Upkeep {
  pid = "";
  readonly #started: StartedScript;

  constructor(role: string, url: string) {
    this.#started = startScript(script, [role, url], (line) => (this.pid = line));
  }

  kill(): Promise<void> {
    return this.#started.kill();
  }

  stop(): void {
    this.#started.signal("SIGTERM");
  }
}

// All wait for the same clocks, so they wait together.
describe.concurrent.each(cases)("on %s, %s processes", (_store, role, place) => {
  test(
    `lead after one that was killed, ${tries} in a row, and after one that stops`,
    { timeout: (tries + 1) * testMaxMs },
    async () => {
      const url = place();
      const looking = await openStore(nodePlatform, url);
      const started: Upkeep[] = [];
      const start = (): Upkeep => {
        const upkeep = new Upkeep(role, url);
        started.push(upkeep);
        return upkeep;
      };
      const isLedBy = async ({ pid }: Upkeep): Promise<boolean> => {
        const { docs } = await looking.readDocs({ kind: registryKind, ids: [leaderId] });
        return docs[0]?.body.split(":")[1] === pid;
      };
      try {
        let leader = start();
        await until("the first leads", () => isLedBy(leader));
        for (let kill = 0; kill <= tries; kill++) {
          const next = start();
          await until("another is there", () => next.pid !== "");
          if (kill < tries) await leader.kill();
          else leader.stop();
          await until("the other leads", () => isLedBy(next));
          leader = next;
        }
        expect(await isLedBy(leader)).toBe(true);
      } finally {
        await Promise.all(started.map((each) => each.kill()));
        await looking.close();
      }
    },
  );
});
