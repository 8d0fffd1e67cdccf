/** Promises in seconds, on the defaults and without faults beside the one that is named: what must be prompt is prompt by the virtual clock. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { job } from "../../src/engine/definition.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { VirtualTime } from "../../src/testing/virtual-time.ts";
import { handler } from "../../src/worker/handler.ts";
import type { Network } from "./faulty-store.ts";
import { openNetwork } from "./open-network.ts";
import { drawPlan } from "./plan.ts";
import type { Plan } from "./plan.ts";
import { SimNode } from "./sim-node.ts";

/** A control run: no faults, and hints arrive. */
const plan: Plan = { ...drawPlan(5), isDeaf: false };
const random = createSeededRandom("promptness");
const hold = job<null, null>("hold", { queue: "q0" });

let network: Network;
let time: VirtualTime;
let nodes: SimNode[];
/** Virtual microseconds at which handlers began, and at which their signal fired. */
let beganUs: number[];
let toldUs: number[];

beforeEach(async () => {
  time = new VirtualTime();
  network = await openNetwork({ plan, time, random: random.fork("store"), clock: { offsetMs: 0 } });
  nodes = [];
  beganUs = [];
  toldUs = [];
});

afterEach(async () => {
  for (const node of nodes) node.process.kill();
  await network.store.close();
});

const passMs = (ms: number): Promise<void> => time.advance(ms * 1000);

async function startNode(isWorking: boolean): Promise<SimNode> {
  const name = `node-${nodes.length + 1}`;
  const node = new SimNode({
    name,
    network,
    random: random.fork(name),
    jobs: [],
    effects: [],
    processId: nodes.length,
    offsetMs: 0,
    drift: 0,
    log: false,
    onCrash: () => undefined,
  });
  nodes.push(node);
  if (isWorking) void node.mill.work([handler(hold, ({ signal }) => holdOn(signal))]);
  await passMs(1000);
  return node;
}

/** Works until it is told to stop. */
function holdOn(signal: AbortSignal): Promise<null> {
  beganUs.push(time.elapsedUs);
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      toldUs.push(time.elapsedUs);
      reject(signal.reason as Error);
    });
  });
}

/** Store times of the events of this kind. */
async function timesOf(kind: string): Promise<number[]> {
  const { records } = await network.store.readFeed({ after: 0, max: 1000 });
  return records.flatMap(({ at, events }) => events.filter((event) => event.kind === kind).map(() => at));
}

test("the job of a worker that died is running on another in under 20 s", async () => {
  const victim = await startNode(true);
  void victim.mill.enqueue(hold, null);
  await passMs(60_000);
  await startNode(true);
  expect(beganUs).toHaveLength(1);
  victim.crash();
  const diedUs = time.elapsedUs;
  await passMs(60_000);
  expect(beganUs).toHaveLength(2);
  expect((beganUs[1] as number) - diedUs).toBeLessThan(20_000_000);
});

test("a due job becomes ready within 50 ms", async () => {
  const node = await startNode(true);
  const delays = [700, 5000, 61_000];
  const enqueuedAt = time.now;
  for (const delay of delays) void node.mill.enqueue(hold, null, { delay });
  await passMs(100_000);
  const promotedAt = await timesOf("promoted");
  expect(promotedAt).toHaveLength(delays.length);
  for (const [index, delay] of delays.entries())
    expect((promotedAt[index] as number) - enqueuedAt - delay).toBeLessThanOrEqual(50);
});

test("a running job whose cancel is asked for by another process is told within a second", async () => {
  const [node, other] = [await startNode(true), await startNode(false)];
  let id = "";
  void node.mill.enqueue(hold, null).then((handle) => (id = handle.id));
  await passMs(6000);
  const askedUs = time.elapsedUs;
  void other.mill.jobs.cancel(id);
  await passMs(15_000);
  expect(toldUs).toHaveLength(1);
  expect((toldUs[0] as number) - askedUs).toBeLessThan(1_000_000);
  expect((await network.store.readJobs([id]))[0]?.state).toBe("cancelled");
});

test("an idle worker makes fewer than 2 store calls per second, its duties included", async () => {
  await startNode(true);
  await passMs(10_000);
  const before = network.calls;
  await passMs(600_000);
  expect((network.calls - before) / 600).toBeLessThan(2);
});
