/**
 * A process of the permit tests. `hold`: takes all of the limit, says so, waits for more, and holds until it is killed.
 * `loop`: a worker with jobs of a limit, and of the keys of another one, beside code that takes permits of both, again
 * and again; each says when it begins and ends to hold, on the clock that all processes of the machine share.
 */
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { handler, job, limit, Millrace } from "../../src/index.ts";

export interface HoldLine {
  /** Unique in its process. */
  readonly hold: number;
  readonly weight: number;
  /** Null for a limit without keys. */
  readonly key: string | null;
  readonly atMs: number;
  readonly isOver: boolean;
}

const cap = 3;
const takers = 3;
const slack = limit("slack", { concurrency: cap });
const send = job<number>("send", {
  limits: [slack],
  retention: { completed: 0, failed: 0 },
  retry: { attempts: 100 },
});
const shop = limit("shop", { perKey: { concurrency: cap } });
const keys = ["ann", "bob", "cid"];
const sell = job<string>("sell", {
  limits: [shop.use({ key: (key: string) => key })],
  retention: { completed: 0, failed: 0 },
  retry: { attempts: 100 },
});
const [role = "", url = ""] = process.argv.slice(2);
const mill = await Millrace.open(url, { log: false });
let holds = 0;

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const say = (line: unknown): void => void writeSync(1, `${JSON.stringify(line)}\n`);

async function hold(weight: number, key: string | null = null): Promise<void> {
  const number = ++holds;
  say({ hold: number, weight, key, atMs: nowMs(), isOver: false } satisfies HoldLine);
  await sleep(5 + 20 * Math.random());
  say({ hold: number, weight, key, atMs: nowMs(), isOver: true } satisfies HoldLine);
}

async function take(): Promise<never> {
  for (;;) {
    const weight = 1 + Math.floor(cap * Math.random());
    await using _permit = await mill.limits.acquire(slack, { weight, lease: "2s", wait: "5m" });
    await hold(weight);
  }
}

async function takeOf(key: string): Promise<never> {
  for (;;) {
    const weight = 1 + Math.floor(cap * Math.random());
    await using _permit = await mill.limits.acquire(shop, { key, weight, lease: "2s", wait: "5m" });
    await hold(weight, key);
  }
}

if (role === "hold") {
  await mill.limits.acquire(slack, { weight: cap, lease: "1s" });
  void mill.limits.acquire("slack", { wait: "10m" });
  say("held");
} else {
  const handlers = [handler(send, () => hold(1)), handler(sell, ({ input }) => hold(1, input))];
  await mill.work(handlers, { concurrency: 4, lease: "2s" });
  for (let count = 0; count < takers; count++) void take();
  for (const key of [...keys, ...keys]) void takeOf(key);
  for (let n = 0; ; n++) {
    await Promise.all([mill.enqueue(send, 1), mill.enqueue(sell, keys[n % keys.length] ?? "")]);
    await sleep(30);
  }
}
