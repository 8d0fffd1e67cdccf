/**
 * Crashes of a bucket's writer at every await. One life is lived undisturbed and its awaits are counted: verbs of the
 * object storage and compressions. Then it is lived again and again, and the process dies before or after each of them.
 * After every death the next opener must find all that was acknowledged, in a store that is whole. MILLRACE_CRASHES=all
 * takes every await, without it a part of them.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isMillraceError } from "../../src/model/error.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";
import type { Platform } from "../../src/platform/platform.ts";
import type { ClaimAnswer } from "../../src/store/operations.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { settleTurn, VirtualTime } from "../../src/testing/virtual-time.ts";
import { aChange, aClaim, aDoc, aGate, aJob, aSettle, finish, schedule } from "../support/builders.ts";
import { openCompared } from "../support/compared-bucket.ts";
import { auditAll } from "../support/walk.ts";
import { SimProcess } from "./actors/sim-process.ts";

const { MILLRACE_CRASHES: wanted } = process.env;
const sampled = 40;
const tuning = {
  sleptMs: 600_000,
  graceMs: 60_000,
  cleanUpEveryMs: 0,
  recordsMin: 4,
  apartMs: 0,
  closeRecords: 2,
};
const latencyUs = 100;

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-bucket-crashes-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Crash {
  readonly at: number;
  readonly when: "before" | "after";
}

/** A process that dies at one of its awaits. */
class Mortal {
  readonly process: SimProcess;
  readonly platform: Platform;
  readonly objects: Objects;
  awaits = 0;
  isDead = false;
  readonly #crash: Crash | null;
  #isCleared = false;
  readonly #pending = new Set<(error: Error) => void>();

  constructor(time: VirtualTime, bucket: MemoryBucket, crash: Crash | null) {
    this.#crash = crash;
    const random = createSeededRandom(1).fork("mortal");
    this.process = new SimProcess({
      name: "mortal",
      time,
      random,
      clock: { offsetMs: 0, drift: 0 },
      processId: 1,
    });
    const { platform } = this.process;
    const inner = bucket.open();
    this.platform = {
      ...platform,
      compress: (body, level) => this.#await(() => platform.compress(body, level)),
    };
    this.objects = {
      put: (name, bytes, ifAbsent) => this.#await(() => inner.put(name, bytes, ifAbsent)),
      get: (name) => this.#await(() => inner.get(name)),
      list: (prefix, after) => this.#await(() => inner.list(prefix, after)),
      remove: (names) => this.#await(() => inner.remove(names)),
      close: () => Promise.resolve(),
    };
  }

  /** What the dead process still holds of the test's own: its files. */
  clear(): void {
    this.#isCleared = true;
    for (const reject of this.#pending) reject(new Error("dead"));
    this.process.resume();
  }

  #await<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isCleared) return Promise.reject(new Error("dead"));
    return new Promise((resolve, reject) => {
      this.#pending.add(reject);
      this.process.deliver(latencyUs, () => {
        this.awaits += 1;
        const isPoint = this.awaits === this.#crash?.at;
        if (isPoint) {
          this.isDead = true;
          this.process.pause();
        }
        if (isPoint && this.#crash?.when === "before") return;
        run().then((answer) => void this.process.deliver(latencyUs, () => resolve(answer)), reject);
      });
    });
  }
}

/** What was acknowledged, as what must be true of the store from then on. */
type Fact = readonly [what: string, holds: (store: Store) => Promise<boolean>];

const isThere =
  (...ids: string[]) =>
  async (store: Store): Promise<boolean> =>
    (await store.readJobs(ids)).every((job) => job !== null);
const isIn =
  (id: string, state: string) =>
  async (store: Store): Promise<boolean> =>
    (await store.readJobs([id]))[0]?.state === state;
const jobs = (...ids: string[]) => [{ jobs: ids.map((id) => aJob({ id })) }];

class Life {
  readonly facts: Fact[] = [];
  readonly fences: number[] = [];
  readonly mortal: Mortal;
  store: Store | null = null;
  readonly #time: VirtualTime;

  constructor(time: VirtualTime, mortal: Mortal) {
    this.#time = time;
    this.mortal = mortal;
  }

  async open(): Promise<Store> {
    const { objects, platform } = this.mortal;
    const store = await openBucketStore({ objects, platform, whenHeld: "take", cacheFolder: folder, tuning });
    this.store = store;
    return store;
  }

  async claim(store: Store): Promise<ClaimAnswer> {
    const answer = await store.claim(aClaim({ max: 2 }));
    this.fences.push(...answer.jobs.map(({ fence }) => fence));
    return answer;
  }

  async live(): Promise<void> {
    const { facts } = this;
    let store = await this.open();
    await store.submit(jobs("a1", "a2", "a3"));
    facts.push(["three jobs", isThere("a1", "a2", "a3")]);
    const [one, two] = (await this.claim(store)).jobs;
    await store.settleIfLeased([aSettle(one!, finish())]);
    facts.push(["a settle", isIn(one!.id, "completed")]);
    await store.settleIfLeased([aSettle(two!, schedule(86_400_000, { event: "retry-scheduled" }))]);
    facts.push(["a retry", isIn(two!.id, "scheduled")]);
    await store.changeIf([aChange("a3", ["ready"], finish("cancelled", { event: "cancelled" }))]);
    facts.push(["a change", isIn("a3", "cancelled")]);
    await store.putDocs([aDoc("setting", "on")]);
    const hasDoc = async (after: Store): Promise<boolean> =>
      (await after.readDocs({ kind: aDoc("setting", null).kind, ids: ["setting"] })).docs[0]?.body === "on";
    facts.push(["a document", hasDoc]);
    await store.putGates([aGate("limit:x", { cap: 3 })]);
    const hasGate = async (after: Store): Promise<boolean> =>
      (await after.readGates({ keys: ["limit:x"] })).gates[0]?.cap === 3;
    facts.push(["a gate", hasGate]);
    for (let round = 0; round < 3; round++) {
      // Checkpoints, and clean-ups after their grace.
      await this.#wait(90_000);
      for (let each = 0; each < 5; each++) {
        const id = `b${round}-${each}`;
        await store.submit(jobs(id));
        facts.push([id, isThere(id)]);
      }
    }
    await store.close();
    store = await this.open();
    const [three] = (await this.claim(store)).jobs;
    await store.settleIfLeased([aSettle(three!, finish())]);
    facts.push(["a settle after a reopening", isIn(three!.id, "completed")]);
    const old = store;
    // Takes over from itself: the old one lives on and is fenced.
    store = await this.open();
    await store.submit(jobs("c1"));
    facts.push(["a job of the next writer", isThere("c1")]);
    const refusal: unknown = await old.submit(jobs("c2")).catch((error: unknown) => error);
    assert(isMillraceError(refusal) && refusal.code === "store-fenced" && !refusal.retryable);
    const isNotThere = async (after: Store): Promise<boolean> => (await after.readJobs(["c2"]))[0] === null;
    facts.push(["a refused job is not there", isNotThere]);
    await old.close();
    await this.claim(store);
    await store.close();
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.mortal.process.deliver(ms * 1000, resolve));
  }

  /** Until it is over or the process is dead. */
  async run(): Promise<void> {
    let isOver = false;
    let failure: unknown = null;
    this.live().then(
      () => (isOver = true),
      (error: unknown) => {
        failure = error;
        isOver = true;
      },
    );
    await settleTurn();
    while (!isOver && !this.mortal.isDead) await this.#time.step();
    // Whatever was on its way lands.
    await this.#time.advance(10 * latencyUs);
    if (failure !== null) throw failure as Error;
  }
}

async function liveAndDie(crash: Crash | null): Promise<number> {
  const time = new VirtualTime();
  const bucket = new MemoryBucket({ pageSize: 5 });
  const mortal = new Mortal(time, bucket, crash);
  const life = new Life(time, mortal);
  await life.run();
  const heir = new SimProcess({
    ...{ name: "heir", time, random: createSeededRandom(2), clock: { offsetMs: 0, drift: 0 }, processId: 2 },
  });
  const drive = async <T>(promise: Promise<T>): Promise<T> => {
    let isDone = false;
    const end = (): void => void (isDone = true);
    promise.then(end, end);
    await settleTurn();
    while (!isDone && (await time.step()));
    return promise;
  };
  const store = await drive(openCompared(() => bucket.open(), heir.platform, folder, "take"));
  const where = crash === null ? "undisturbed" : `death ${crash.when} await ${crash.at}`;
  const lost: string[] = [];
  for (const [what, holds] of life.facts) if (!(await drive(holds(store)))) lost.push(what);
  expect(lost, where).toEqual([]);
  expect(await drive(auditAll(store)), where).toEqual({});
  const { jobs: claimed } = await drive(store.claim(aClaim({ max: 100 })));
  expect(
    claimed.filter(({ fence }) => life.fences.includes(fence)),
    where,
  ).toEqual([]);
  await drive(store.settleIfLeased(claimed.map((lease) => aSettle(lease, finish()))));
  await drive(store.close());
  mortal.clear();
  await time.advance(10_000_000);
  if (life.store !== null) await drive(life.store.close().catch(() => undefined));
  return mortal.awaits;
}

test("a writer that dies at any await loses nothing that it acknowledged", { timeout: 600_000 }, async () => {
  const awaits = await liveAndDie(null);
  expect(awaits).toBeGreaterThan(150);
  const every = wanted === "all" ? 1 : Math.ceil(awaits / sampled);
  for (let at = 1; at <= awaits; at += every)
    await liveAndDie({ at, when: Math.floor(at / every) % 2 === 0 || wanted === "all" ? "after" : "before" });
  if (wanted === "all") for (let at = 1; at <= awaits; at++) await liveAndDie({ at, when: "before" });
});
