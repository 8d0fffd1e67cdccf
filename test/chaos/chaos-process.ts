/**
 * A process of the kill test: a worker, or a producer. Started with the pinned Node, told by its arguments what it is,
 * killed without a word; whatever it does it says on its pipe first.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import type { StoreOptions } from "../../src/client/millrace-options.ts";
import { createServices } from "../../src/engine/services.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { deferredKind } from "../../src/store/rules/flow/arrive.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { handler } from "../../src/worker/handler.ts";
import type { JobContext } from "../../src/worker/run/job-context.ts";
import { countKind } from "../history/history.ts";
import type { Effect } from "../history/history.ts";
import { follow, work } from "./chaos-jobs.ts";
import type { ChaosInput } from "./chaos-jobs.ts";
import { nowUs, recordStore, say, saying } from "./recorded-store.ts";

export interface ChaosOptions {
  /** Both: where one process does all that writes. */
  readonly role: "worker" | "producer" | "both";
  readonly name: string;
  readonly url: string;
  /** The store's own options. */
  readonly store?: StoreOptions;
  readonly leaseMs: number;
  readonly concurrency: number;
  /** Producers: the numbers of the jobs to enqueue, and the pause between two enqueues. */
  readonly from: number;
  readonly to: number;
  readonly everyMs: number;
  /** Instead of a drawn one. */
  readonly input?: ChaosInput;
}

/** Longer than the lease where processes are killed. */
const longMs = 1500;
const triesMax = 5;
const options = JSON.parse(process.argv[2] as string) as ChaosOptions;
const read = readMillraceOptions(nodePlatform, { giveUp: "5s" });
const store = recordStore(await openStore(nodePlatform, options.url, options.store));
const mill = new Millrace(createServices(store, nodePlatform, read.settings, read.log), read.duties);
if (options.role !== "producer") await runWorker();
if (options.role !== "worker") await runProducer();

async function runWorker(): Promise<void> {
  const worker = await mill.work([handler(work, run), handler(follow, runFollow)], {
    concurrency: options.concurrency,
    lease: options.leaseMs,
    label: options.name,
  });
  process.once("SIGTERM", () => {
    void worker.stop().then(async ({ notStopped }) => {
      say({ line: "stopped", atUs: nowUs(), owner: worker.id, notStopped });
      await mill.close();
    });
  });
  say({ line: "ready" });
}

function log(context: JobContext, effect: Pick<Effect, "kind" | "how" | "wasAborted">): void {
  const { id, attempt, fence } = context;
  say({
    line: "effect",
    effect: { ...effect, id, attempt, fence: fence.value, actor: options.name, atUs: nowUs() },
  });
}

async function run(context: JobContext<ChaosInput>): Promise<string> {
  const { ms, heeds, freezes, kills, failures = 0, hasFollow, number } = context.input;
  log(context, { kind: "began" });
  if (kills !== undefined) process.kill(process.pid, "SIGKILL");
  if (freezes === options.name) process.kill(process.pid, "SIGSTOP");
  else if (heeds === true) await sleep(ms, null, { signal: context.signal }).catch(() => undefined);
  else await sleep(ms);
  const isFailing = context.attempt <= failures;
  if (!isFailing && hasFollow === true) context.enqueue(follow, { parent: context.id });
  log(context, { kind: "ended", how: isFailing ? "threw" : "returned", wasAborted: context.signal.aborted });
  if (isFailing) throw new Error(`failure ${context.attempt} of ${failures}`);
  return `done ${number}`;
}

async function runFollow(context: JobContext): Promise<null> {
  log(context, { kind: "began" });
  await sleep(1);
  log(context, { kind: "ended", how: "returned", wasAborted: context.signal.aborted });
  return null;
}

/** What all producers spend together: what is given up is not added again. */
async function count(random: SeededRandom): Promise<void> {
  const [ceiling, mark] = [400, 100];
  const add = { by: random.whole(1, 5), ceiling: random.chance(0.5) ? ceiling : null, marks: [mark] };
  const leaves = { kind: deferredKind, id: "{spent}nobody" };
  const put = { kind: countKind, id: "{spent}", add: { ...add, leaves } };
  await store.putDocs([put]).catch(() => undefined);
}

/** Ids are numbers, so what a killed producer may or may not have enqueued is enqueued again by the next one. */
async function runProducer(): Promise<void> {
  if (options.role === "producer") say({ line: "ready" });
  for (let number = options.from; number <= options.to; number++) {
    const random = createSeededRandom(`job ${number}`);
    const input = options.input ?? {
      number,
      ms: random.chance(0.05) ? longMs : random.whole(0, 30),
      failures: random.chance(0.1) ? random.whole(1, 2) : 0,
      hasFollow: random.chance(0.3),
    };
    const id = `job-${number}`;
    const delayed = random.chance(0.2) ? { delay: 100 } : {};
    const enqueue = async (): Promise<string[]> => {
      const { kills } = input as ChaosInput;
      const handle = await mill.enqueue(work, input, {
        id,
        ...delayed,
        ...(kills === undefined ? {} : { retry: { attempts: kills } }),
      });
      return [handle.id];
    };
    const enqueued = (): Promise<boolean> =>
      saying("enqueue", [JSON.stringify(input)], enqueue).then(
        () => true,
        () => false,
      );
    // On a busy machine an enqueue may be given up: the same id is enqueued again.
    for (let tries = 0; tries < triesMax && !(await enqueued()); tries++) await sleep(options.everyMs);
    await count(createSeededRandom(`add ${number}`));
    await sleep(options.everyMs);
  }
  if (options.role === "producer") await mill.close();
}
