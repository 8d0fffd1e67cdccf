/**
 * A stall is over when it is over: whatever held the store up for longer than the leases are, within ten seconds after
 * it the workers are back at nine tenths of what they did before, and no renewal was sent while another one was open.
 * The server is this file's own. MILLRACE_STALL_MS makes the stalls longer (30000, say).
 */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { isLocked } from "../../src/store/operations.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { millOn } from "../support/mill-on.ts";
import { startPostgres } from "../support/postgres-server.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { until } from "../support/until.ts";

const stallMs = Number(process.env["MILLRACE_STALL_MS"] ?? 5000);
const leaseMs = 1500;
const backWithinMs = 10_000;
const windowMs = 1000;
/** So many jobs at once, each of so many milliseconds: what is done in a second does not hang on the machine. */
const slots = 10;
const workMs = 25;

let server: PostgresServer;
let admin: pg.Client;
let store: Store;
let mill: Millrace;
let schema: string;
let schemas = 0;
let done = 0;
/** Renewals that are open now, and the most that ever were. */
let open = 0;
let openMax = 0;

beforeAll(async () => {
  server = await startPostgres({ settings: ["shared_buffers=32MB"] });
}, 120_000);
afterAll(() => server.stop());
beforeEach(async () => {
  schema = `stall_${++schemas}`;
  const own = await openPostgresStore({ url: server.url, schema, platform: nodePlatform, poolMax: 8 });
  store = {
    ...own,
    async settleIfLeased(settles) {
      const answers = await own.settleIfLeased(settles);
      done += answers.filter((answer) => !isLocked(answer) && answer.kind === "ok").length;
      return answers;
    },
    async extendIfLeased(request) {
      openMax = Math.max(openMax, ++open);
      try {
        return await own.extendIfLeased(request);
      } finally {
        open -= 1;
      }
    },
  };
  openMax = 0;
  mill = millOn(store, { giveUp: "2m" });
  const work = job<number>("work", { retry: { attempts: 100, backoff: 0 } });
  for (let sent = 0; sent < 20; sent++)
    await mill.enqueueMany(Array.from({ length: 1000 }, (_, at) => work.with(at)));
  await mill.work([handler(work, () => sleep(workMs))], {
    concurrency: slots,
    lease: leaseMs,
    shutdownGrace: 0,
  });
  admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
}, 60_000);
afterEach(async () => {
  await admin.end();
  await mill.close();
});

/** What is done in a window. */
async function pace(): Promise<number> {
  const [before, beganUs] = [done, nodePlatform.monotonicUs()];
  await sleep(windowMs);
  return ((done - before) * windowMs * 1000) / (nodePlatform.monotonicUs() - beganUs);
}

const locking = (text: string) => async () => {
  await admin.query(`BEGIN; ${text.replaceAll("@", `${schema}.`)}`);
  await sleep(stallMs);
  await admin.query("COMMIT");
};

async function stopServer(): Promise<void> {
  const { pid } = server.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  const all = [pid as number, ...children];
  for (const each of all) process.kill(each, "SIGSTOP");
  await sleep(stallMs);
  for (const each of all) process.kill(each, "SIGCONT");
}

const locks = "LOCK TABLE @leased IN ACCESS EXCLUSIVE MODE";
const isLinux = process.platform === "linux";
const reason = isLinux ? "" : " (skipped: the children of a process are found in /proc)";
test.skipIf(!isLinux).each([
  ["a lock on the table of leases", locking(locks)],
  ["locks on all leased rows", locking("SELECT 1 FROM @leased FOR UPDATE")],
  ["a server that stood still", stopServer],
])(
  `after %s the workers are back in ten seconds${reason}`,
  { timeout: 60_000 + 2 * stallMs },
  async (_, stall) => {
    await until("work is being done", () => done > 0);
    const usual = await pace();
    await stall();
    let last = 0;
    await until(
      "nine tenths are done again",
      async () => (last = await pace()) >= 0.9 * usual,
      backWithinMs - windowMs,
    ).catch((cause: unknown) => {
      throw new Error(`${Math.round(last)} of ${Math.round(usual)} per second`, { cause });
    });
    // A renewal of leases, and one that looks for those of a lost claim.
    expect(openMax).toBeLessThanOrEqual(2);
  },
);
