/** Documents of a claim over partitions: they go to the one in which they lie, with the claim that is made there. */
import { beforeEach, expect, test } from "vitest";
import { aClaim, aDoc, aJob, aRoute } from "../../../test/support/builders.ts";
import { failingPart } from "../../../test/support/failing-part.ts";
import type { FailingPart } from "../../../test/support/failing-part.ts";
import { openReference } from "../../../test/support/reference-as-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { MillraceError } from "../../model/error.ts";
import type { ClaimAnswer, ClaimDocs } from "../operations.ts";
import type { Store } from "../store.ts";
import { partitionedStore } from "./partitioned-store.ts";

const partitions = 4;
const home = 2;
/** The first letter of a name after "p" is its partition. */
const partitionOf = (name: string): number => Number(name.charAt(1));
const placement = { partitions, ofId: partitionOf, ofName: partitionOf, ofGates: 0 };
const docs: ClaimDocs = { puts: [aDoc("p2-own", "1")], read: { kind: "kv", ids: ["p2-own", "p2-other"] } };

let platform: VirtualPlatform;
let parts: FailingPart[];
let store: Store;
/** The partitions that were asked by claims, in order; those that were asked for documents with a mark. */
let asked: string[];
/** Claims of jobs fail where the documents lie. */
let isBroken: boolean;

beforeEach(() => {
  platform = createVirtualPlatform();
  asked = [];
  isBroken = false;
  parts = Array.from({ length: partitions }, () => failingPart(openReference(platform, 1)));
  const noted = parts.map((part, number): Store => ({
    ...part,
    async claim(request) {
      asked.push(`${number}${request.docs === undefined ? "" : "+"}`);
      if (isBroken && number === home && request.offers.length > 0) throw new Error("broken");
      return part.claim(request);
    },
  }));
  store = partitionedStore(noted, { platform, placement });
  store.watch(() => undefined);
});

const passMs = (ms: number): Promise<void> => platform.time.advance(ms * 1000);

async function claim(given: Parameters<typeof aClaim>[0] = {}): Promise<ClaimAnswer> {
  asked = [];
  const answering = store.claim(aClaim({ docs, leaseMs: 60_000, ...given }));
  answering.catch(() => undefined);
  await passMs(300);
  return answering;
}

test("ask their partition once, with the claim, and no other where none is known to have work", async () => {
  await passMs(11_000);
  await claim();
  await passMs(1000);
  const answer = await claim();
  expect(asked).toEqual([`${home}+`]);
  expect(answer.docs?.puts).toEqual([{ kind: "ok", version: 2 }]);
  expect(answer.docs?.read?.docs.map(({ id, body }) => [id, body])).toEqual([["p2-own", "1"]]);
});

test("keep nobody from the others: one with work is asked, too, and each once in 30 s", async () => {
  await passMs(11_000);
  await claim();
  await store.submit([{ jobs: [aJob({ id: "p3-a" })] }]);
  parts[3]?.hint({ kind: "ready", routes: [aRoute()] });
  expect((await claim()).jobs.map(({ id }) => id)).toEqual(["p3-a"]);
  expect(asked).toEqual([`${home}+`, "3"]);
  const others = new Map<string, number>();
  for (let second = 0; second < 60; second++) {
    await passMs(700);
    await claim();
    for (const each of asked.slice(1)) others.set(each, (others.get(each) ?? 0) + 1);
  }
  expect(Object.fromEntries(others)).toEqual({ 0: 2, 1: 2, 3: 2 });
});

test("are left out of the answer where their partition fails, and the jobs of the others come all the same", async () => {
  await store.submit([{ jobs: [aJob({ id: "p1-a" })] }]);
  const part = parts[home] as FailingPart;
  part.fails = new MillraceError("store-unavailable", "away");
  const answer = await claim();
  expect(answer.jobs.map(({ id }) => id)).toEqual(["p1-a"]);
  expect(answer.docs).toBeUndefined();
  part.fails = null;
  await passMs(1000);
  await claim();
  expect((await claim()).docs?.puts[0]?.kind).toBe("ok");
});

test("go without offers to a partition whose claims fail", async () => {
  isBroken = true;
  // They are tried again, after waits that grow; in between only the documents go there.
  for (let time = 1; time <= 2; time++) expect((await claim()).docs).toBeUndefined();
  expect((await claim()).docs?.puts).toEqual([{ kind: "ok", version: 1 }]);
  expect(store.missing?.().map(({ number }) => number)).toEqual([home]);
});

test("are refused before any call where they lie in several partitions", async () => {
  const apart: ClaimDocs = { puts: [aDoc("p1-x", "1"), aDoc("p2-x", "1")], read: null };
  await expect(claim({ docs: apart })).rejects.toMatchObject({ code: "placement-conflict" });
  expect(asked).toEqual([]);
});
