/**
 * The heartbeat over partitions: it asks the partition of the registry alone, and says where a claim is worth making.
 */
import { beforeEach, expect, test } from "vitest";
import { aClaim, aDoc, aJob, aRoute } from "../../../test/support/builders.ts";
import { failingPart } from "../../../test/support/stores/failing-part.ts";
import type { FailingPart } from "../../../test/support/stores/failing-part.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import { MillraceError } from "../../model/error.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import type { HeartbeatAnswer, HeartbeatRequest } from "../operations.ts";
import type { Store } from "../store.ts";
import { partitionedStore } from "./partitioned-store.ts";

const partitions = 4;
const home = 2;
/** The first letter of a name after "p" is its partition. */
const partitionOf = (name: string): number => Number(name.charAt(1));
const placement = { partitions, ofId: partitionOf, ofName: partitionOf, ofGates: 0 };
const request: HeartbeatRequest = {
  puts: [aDoc("p2-own", "1")],
  read: { kind: "kv", ids: ["p2-own", "p2-other"] },
};

let platform: VirtualPlatform;
let parts: FailingPart[];
let store: Store;
/** The partitions that were asked, in order: those of heartbeats, and those of claims. */
let asked: number[];
let claims: number[];

beforeEach(async () => {
  platform = createVirtualPlatform();
  [asked, claims] = [[], []];
  parts = Array.from({ length: partitions }, () => failingPart(openReference(platform, 1)));
  const noted = parts.map((part, number): Store => ({
    ...part,
    heartbeat(given) {
      asked.push(number);
      return part.heartbeat(given);
    },
    claim(given) {
      claims.push(number);
      return part.claim(given);
    },
  }));
  store = partitionedStore(noted, { platform, placement });
  store.watch(() => undefined);
  // Until then hints are not trusted.
  await passMs(11_000);
});

const passMs = (ms: number): Promise<void> => platform.time.advance(ms * 1000);
const route = aRoute();

async function settled<Answer>(answering: Promise<Answer>): Promise<Answer> {
  answering.catch(() => undefined);
  await passMs(300);
  return answering;
}
const sendHeartbeat = (given = request): Promise<HeartbeatAnswer> => settled(store.heartbeat(given));
const claim = async (): Promise<readonly string[]> =>
  (await settled(store.claim(aClaim({ leaseMs: 60_000 })))).jobs.map(({ id }) => id);

test("asks the partition of its documents alone", async () => {
  await sendHeartbeat();
  await sendHeartbeat();
  expect(asked).toEqual([home, home]);
  const { puts, read } = await sendHeartbeat();
  expect(puts).toEqual([{ kind: "ok", version: 3 }]);
  expect(read.docs.map(({ id, body }) => [id, body])).toEqual([["p2-own", "1"]]);
});

test("names a route once in 30 s although no partition is known to have work", async () => {
  await claim();
  claims = [];
  let named = 0;
  for (let second = 0; second < 60; second++) {
    await passMs(700);
    if (!(await sendHeartbeat()).ready.includes(route)) continue;
    named += 1;
    await claim();
  }
  expect(named).toBeLessThanOrEqual(6);
  for (const other of [0, 1, 3]) expect(claims.filter((number) => number === other)).toHaveLength(2);
});

test("names a route of which a hint came from another partition, and one that is ready at home without a hint", async () => {
  await claim();
  expect((await sendHeartbeat()).ready).toEqual([]);
  await store.submit([{ jobs: [aJob({ id: "p3-a" })] }]);
  parts[3]?.hint({ kind: "ready", routes: [route] });
  expect((await sendHeartbeat()).ready).toEqual([route]);
  expect(await claim()).toEqual(["p3-a"]);
  expect((await sendHeartbeat()).ready).toEqual([]);
  await parts[home]?.submit([{ jobs: [aJob({ id: "p2-a" })] }]);
  expect((await sendHeartbeat()).ready).toEqual([route]);
  expect(await claim()).toEqual(["p2-a"]);
});

test("fails with its partition, and not with another", async () => {
  const away = new MillraceError("store-unavailable", "away");
  (parts[1] as FailingPart).fails = away;
  expect((await sendHeartbeat()).puts[0]?.kind).toBe("ok");
  (parts[home] as FailingPart).fails = away;
  await expect(sendHeartbeat()).rejects.toBe(away);
});

test("is refused before any call if its documents lie in several partitions", async () => {
  const apart = { ...request, puts: [aDoc("p1-x", "1"), aDoc("p2-x", "1")] };
  await expect(sendHeartbeat(apart)).rejects.toMatchObject({ code: "placement-conflict" });
  expect(asked).toEqual([]);
});
