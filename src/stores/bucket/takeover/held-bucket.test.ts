import { expect, test } from "vitest";
import { aClaim, aDoc, aJob } from "../../../../test/support/builders.ts";
import { faultyObjects } from "../../../../test/support/faulty-objects.ts";
import { passUntil, virtualProcess, waitUntil } from "../../../../test/support/virtual/virtual-process.ts";
import type { VirtualProcess } from "../../../../test/support/virtual/virtual-process.ts";
import type { Store } from "../../../store/store.ts";
import { VirtualTime } from "../../../testing/virtual-time.ts";
import { openBucketStore } from "../bucket-store.ts";
import type { BucketOptions } from "../bucket-store.ts";
import { openBucketView } from "../copy/bucket-view.ts";
import { logName, logPrefix } from "../layout.ts";
import { MemoryBucket } from "../objects/memory.ts";
import type { Objects } from "../objects/objects.ts";
import { newestMark } from "../copy/replica.ts";

const secondUs = 1_000_000;

function useBucket() {
  const time = new VirtualTime();
  const bucket = new MemoryBucket();
  const running = new Map<string, boolean>();
  const process = (number: number, key: string | null = null): VirtualProcess =>
    virtualProcess(time, number, { key, running });
  const pass = <Answer>(promise: Promise<Answer>): Promise<Answer> => passUntil(time, promise);
  const open = (platform: VirtualProcess, options: Partial<BucketOptions> = {}): Promise<Store> =>
    pass(openBucketStore({ objects: bucket.open(), platform, ...options }));
  /** A writer of which the bucket has the tables already, so that its next records are small. */
  const openWriter = async (
    platform: VirtualProcess,
    options: Partial<BucketOptions> = {},
  ): Promise<Store> => {
    const store = await open(platform, { whenHeld: "take", ...options });
    await waitUntil(time, store.submit([{ jobs: [aJob({ id: `of-${platform.processId}` })] }]));
    return store;
  };
  const tookMs = async (opening: () => Promise<unknown>): Promise<number> => {
    const before = time.now;
    await opening();
    return time.now - before;
  };
  return { time, bucket, running, process, pass, open, openWriter, tookMs };
}

const held = (pattern: RegExp) => ({
  code: "store-held",
  message: expect.stringMatching(pattern) as unknown,
});

test("without a word a living writer is not displaced: the error names it and the three ways on", async () => {
  const { process, pass, open, openWriter, tookMs } = useBucket();
  const writer = await openWriter(process(1));
  const ways = /^Process 1 on virtual .*view: true.*whenHeld: "wait".*whenHeld: "take"/;
  const waitedMs = await tookMs(() => expect(open(process(2))).rejects.toMatchObject(held(ways)));
  // As soon as a record of it has come.
  expect(waitedMs).toBeLessThanOrEqual(10_500);
  await pass(writer.submit([{ jobs: [aJob({ id: "a" })] }]));
  await pass(writer.close());
});

test("a living writer of this machine is named at once, a dead one is followed at once", async () => {
  const { process, open, openWriter, running, tookMs } = useBucket();
  running.set("key-1", true);
  await openWriter(process(1, "key-1"));
  const refused = () => expect(open(process(2, "key-2"))).rejects.toMatchObject(held(/Process 1/));
  expect(await tookMs(refused)).toBe(0);
  running.set("key-1", false);
  expect(await tookMs(() => open(process(2, "key-2")))).toBe(0);
});

test("in a container every writer is process 1: its key tells the last one from this one", async () => {
  const { process, open, openWriter, running, tookMs } = useBucket();
  running.set("first start", true);
  await openWriter(process(1, "first start"));
  running.set("first start", false);
  expect(await tookMs(() => open(process(1, "second start"), { whenHeld: "wait" }))).toBe(0);
});

/** Each request takes 40 ms before it has its effect. */
function late(objects: Objects, platform: VirtualProcess): Objects {
  const after = async <Answer>(verb: () => Promise<Answer>): Promise<Answer> => {
    await new Promise<void>((resolve) => void platform.setTimer(40, resolve, true));
    return verb();
  };
  return {
    put: (...given) => after(() => objects.put(...given)),
    get: (...given) => after(() => objects.get(...given)),
    list: (...given) => after(() => objects.list(...given)),
    remove: (...given) => after(() => objects.remove(...given)),
    close: () => objects.close(),
  };
}

test("of several that stand by one takes over, and the others go on standing by", async () => {
  const { bucket, process, pass, openWriter, running, time } = useBucket();
  const keyed = (number: number) => {
    running.set(`key-${number}`, true);
    return process(number, `key-${number}`);
  };
  const first = await openWriter(keyed(1));
  const opened: Store[] = [];
  for (const number of [2, 3, 4, 5]) {
    const platform = keyed(number);
    const objects = late(bucket.open(), platform);
    void openBucketStore({ objects, platform, whenHeld: "wait" }).then((store) => void opened.push(store));
  }
  await time.advance(5 * secondUs);
  expect(opened).toEqual([]);
  await pass(first.close());
  await time.advance(60 * secondUs);
  expect(opened).toHaveLength(1);
  const [heir] = opened as [Store];
  await pass(heir.submit([{ jobs: [aJob({ id: "heir" })] }]));
  expect((await pass(heir.describe())).epoch).toBe(2);
  for (const left of [4, 3, 2, 1]) {
    await pass((opened.at(-1) as Store).close());
    await time.advance(5 * secondUs);
    expect(opened).toHaveLength(Math.min(4, 6 - left));
  }
});

test("a writer that nobody here can ask for is followed after 15 s of silence and not before", async () => {
  const { bucket, process, openWriter, open, time, pass, tookMs } = useBucket();
  const objects = faultyObjects(bucket.open());
  const writer = await openWriter(process(1), { objects });
  const lines: string[] = [];
  const onWaiting = (line: string): void => void lines.push(line);
  const whenHeld = "wait";
  let isOpen = false;
  const standby = openBucketStore({ objects: bucket.open(), platform: process(1), whenHeld, onWaiting });
  void standby.then(() => (isOpen = true));
  await time.advance(200 * secondUs);
  expect(isOpen).toBe(false);
  expect(lines).toEqual([expect.stringMatching(/stands by: process 1 on virtual .*--take/)]);
  objects.state = "away";
  const waitedMs = await tookMs(() => pass(standby));
  expect(waitedMs).toBeGreaterThan(5000);
  expect(waitedMs).toBeLessThanOrEqual(15_500);
  objects.state = "well";
  await time.advance(5 * secondUs);
  await expect(pass(writer.submit([{ jobs: [aJob({ id: "late" })] }]))).rejects.toMatchObject({
    code: "store-fenced",
    outcome: "did-not-happen",
  });
  await pass(writer.close());
  expect(await tookMs(async () => pass((await standby).close()))).toBeLessThan(1000);
  expect(await tookMs(() => open(process(3)))).toBe(0);
});

test("a standby outlives an outage of the storage and does not take it for the writer's silence", async () => {
  const { bucket, process, openWriter, time, pass } = useBucket();
  await openWriter(process(1));
  const objects = faultyObjects(bucket.open());
  const lines: string[] = [];
  const ends = new AbortController();
  const standby = openBucketStore({
    ...{ objects, platform: process(2), whenHeld: "wait", signal: ends.signal },
    onWaiting: (line) => void lines.push(line),
  });
  void standby.catch(() => undefined);
  await time.advance(secondUs);
  objects.state = "away";
  await time.advance(60 * secondUs);
  objects.state = "well";
  await time.advance(60 * secondUs);
  expect(lines).toEqual([expect.stringMatching(/stands by/), expect.stringMatching(/cannot be looked at/)]);
  ends.abort();
  await expect(pass(standby)).rejects.toMatchObject({ code: "aborted" });
});

test("a writer that slept hands out no job and renews no lease before it knows that the bucket is still its own", async () => {
  const { process, openWriter, open, pass } = useBucket();
  const platform = process(1);
  const old = await openWriter(platform);
  const { jobs } = await pass(old.claim(aClaim()));
  expect(jobs).toHaveLength(1);
  await pass(old.submit([{ jobs: [aJob({ id: "a" })] }]));
  await open(process(2), { whenHeld: "take" });
  // It was not woken before the calls: only its clock tells.
  platform.skewMs = 20_000;
  const fenced = { status: "rejected", reason: { code: "store-fenced", outcome: "did-not-happen" } };
  const leases = jobs.map(({ id, seq, fence }) => ({ id, seq, fence }));
  const calls = [
    old.claim(aClaim()),
    old.extendIfLeased({ owner: "w1", leaseMs: 60_000, leases, wantsOthers: false }),
  ];
  const settled = await pass(Promise.allSettled(calls));
  expect(settled).toMatchObject([fenced, fenced]);
});

/** Enough records that the close makes a mark, and then the clean-up that comes an hour later. */
async function outlive({ pass, bucket, open, process }: ReturnType<typeof useBucket>): Promise<void> {
  const writer = await open(process(9), { whenHeld: "take" });
  for (let at = 0; at < 110; at++) await pass(writer.submit([{ jobs: [aJob({ id: `later-${at}` })] }]));
  await pass(writer.close());
  const objects = bucket.open();
  const from = (await newestMark(objects))?.from ?? 0;
  expect(from).toBeGreaterThan(100);
  const { names } = await objects.list(logPrefix, null);
  await objects.remove(names.filter((name) => name <= logName(from)));
}

test("a newcomer that slept while its slot was used and removed begins again from the newest mark", async () => {
  const used = useBucket();
  const { bucket, process, openWriter, open, pass } = used;
  await openWriter(process(1));
  const own = bucket.open();
  let sleeps: (() => Promise<void>) | null = () => outlive(used);
  const put: Objects["put"] = async (name, bytes, ifAbsent) => {
    const slept = sleeps;
    if (name.startsWith(logPrefix)) sleeps = null;
    if (name.startsWith(logPrefix)) await slept?.();
    return own.put(name, bytes, ifAbsent);
  };
  const get = own.get.bind(own);
  const list = own.list.bind(own);
  const remove = own.remove.bind(own);
  const close = own.close.bind(own);
  const store = await open(process(2), { objects: { put, get, list, remove, close }, whenHeld: "take" });
  expect(sleeps).toBeNull();
  expect(await pass(store.readJobs(["of-1", "later-109"]))).not.toContain(null);
  await pass(store.submit([{ jobs: [aJob({ id: "acknowledged" })] }]));
  await pass(store.close());
  const next = await open(process(3));
  expect(await pass(next.readJobs(["acknowledged", "later-109"]))).not.toContain(null);
  await pass(next.close());
});

test("a view that nobody asked for hours goes on from the newest mark, where its next records are gone", async () => {
  const used = useBucket();
  const { bucket, process, openWriter, pass } = used;
  await openWriter(process(1));
  const platform = process(2);
  const view = await pass(openBucketView({ objects: bucket.open(), platform }));
  expect(await pass(view.readJobs(["of-1"]))).not.toContain(null);
  await outlive(used);
  platform.skewMs = 3 * 3_600_000;
  expect(await pass(view.readJobs(["of-1", "later-109"]))).not.toContain(null);
  await pass(view.close());
});

test("a view shows the registrations of a living writer, which its log has every ten seconds only", async () => {
  const { bucket, process, running, openWriter, pass, time } = useBucket();
  running.set("key", true);
  const writer = await openWriter(process(1, "key"));
  const register = (): Promise<unknown> => pass(writer.putDocs([aDoc("w1", "1", { expiresInMs: 3400 })]));
  const ahead = process(2);
  ahead.skewMs = 3_600_000;
  const view = await pass(openBucketView({ objects: bucket.open(), platform: process(2) }));
  const early = await pass(openBucketView({ objects: bucket.open(), platform: ahead }));
  const isShown = async (): Promise<boolean[]> => {
    const answers = await pass(
      Promise.all([view, early].map((each) => each.readDocs({ kind: "kv", ids: ["w1"] }))),
    );
    return answers.map(({ docs }) => docs.length === 1);
  };
  await register();
  await time.advance(8 * secondUs);
  expect(await isShown()).toEqual([true, true]);
  // The next records say that the worker is gone.
  await time.advance(20 * secondUs);
  expect(await isShown()).toEqual([false, false]);
  await register();
  running.set("key", false);
  await time.advance(8 * secondUs);
  expect(await isShown()).toEqual([false, false]);
  await pass(Promise.all([view.close(), early.close(), writer.close()]));
});

test("a view says what the writer is doing, by what it hears and by the process itself", async () => {
  const { bucket, process, running, openWriter, pass, time } = useBucket();
  const writerOf = async (view: Store): Promise<unknown> => (await pass(view.describe())).view?.writer;
  const refusalOf = async (view: Store): Promise<string> =>
    pass(view.submit([{ jobs: [aJob({ id: "refused" })] }])).then(String, String);
  const objects = faultyObjects(bucket.open());
  const writer = await openWriter(process(1, "of another machine"), { objects });
  const view = await pass(openBucketView({ objects: bucket.open(), platform: process(2) }));
  const wrong = process(3);
  wrong.skewMs = -3_600_000;
  const early = await pass(openBucketView({ objects: bucket.open(), platform: wrong }));
  for (let minutes = 0; minutes < 3; minutes++) {
    expect([await writerOf(view), await writerOf(early)]).toEqual(["writing", "writing"]);
    expect(await refusalOf(view)).toMatch(
      /Process 1 on virtual writes to the bucket: .* ends that process: .*--take/,
    );
    await time.advance(10 * secondUs);
  }
  objects.state = "away";
  for (let looks = 0; looks < 20; looks++) {
    await time.advance(secondUs);
    await writerOf(view);
    await writerOf(early);
  }
  expect([await writerOf(view), await writerOf(early)]).toEqual(["silent", "silent"]);
  expect(await refusalOf(view)).toMatch(/may still write to the bucket, but has fallen silent: .*--take/);
  running.set("of another machine", false);
  expect(await writerOf(view)).toBe("gone");
  objects.state = "well";
  await pass(writer.close());
  await time.advance(secondUs);
  expect(await writerOf(view)).toBe("closed");
  expect(await refusalOf(view)).toMatch(/No process writes to the bucket: .*--take/);
  await pass(Promise.all([view.close(), early.close()]));
});

test("a clock that jumps by an hour, forth and back, of the writer or of a newcomer, costs nothing", async () => {
  const { process, openWriter, open, pass, time } = useBucket();
  const [platform, other] = [process(1), process(2)];
  const writer = await openWriter(platform);
  for (const [at, skewMs] of [3_600_000, -3_600_000, 0].entries()) {
    platform.skewMs = skewMs;
    await pass(writer.submit([{ jobs: [aJob({ id: `jump-${at}` })] }]));
    other.skewMs = -skewMs;
    await expect(open(other)).rejects.toMatchObject({ code: "store-held" });
  }
  await time.advance(60 * secondUs);
  await pass(writer.submit([{ jobs: [aJob({ id: "last" })] }]));
  await pass(writer.close());
  const next = await open(other);
  const ids = ["jump-0", "jump-1", "jump-2", "last"];
  expect(await pass(next.readJobs(ids))).not.toContain(null);
  await pass(next.close());
});

test("a storage that ignores the condition of a put is refused by its name", async () => {
  const { bucket, process, open } = useBucket();
  const own = bucket.open();
  const objects: Objects = {
    put: (name, bytes) => own.put(name, bytes, false),
    get: (name) => own.get(name),
    list: (prefix, after) => own.list(prefix, after),
    remove: (names) => own.remove(names),
    close: () => own.close(),
  };
  await expect(open(process(1), { objects })).rejects.toMatchObject({
    code: "durability-refused",
    message: expect.stringMatching(/ignores the condition/) as unknown,
  });
});

test("a put that hangs gives its callers up after their time, and answers those that come after it", async () => {
  const { bucket, process, openWriter, pass, time } = useBucket();
  const objects = faultyObjects(bucket.open());
  const writer = await openWriter(process(1), { objects, callTimeoutMs: 5000 });
  objects.state = "hung";
  const before = time.now;
  await expect(pass(writer.submit([{ jobs: [aJob({ id: "hung" })] }]))).rejects.toMatchObject({
    code: "outcome-unknown",
  });
  expect(time.now - before).toBe(5000);
  objects.heal();
  await pass(writer.submit([{ jobs: [aJob({ id: "next" })] }]));
  expect(await pass(writer.readJobs(["hung", "next"]))).not.toContain(null);
  await pass(writer.close());
});

test("a job that kills its process at once is counted from the second start on: its claim has landed", async () => {
  const { bucket, process, openWriter, open, pass } = useBucket();
  const first = faultyObjects(bucket.open());
  const writer = await openWriter(process(1), { objects: first });
  await pass(writer.claim(aClaim()));
  first.state = "hung";
  const second = faultyObjects(bucket.open());
  const next = await open(process(2), { objects: second, whenHeld: "take" });
  const { jobs } = await pass(next.claim(aClaim({ leaseMs: 60_000 })));
  expect(jobs).toMatchObject([{ id: "of-1", attempt: 1 }]);
  second.state = "hung";
  const third = await open(process(3), { whenHeld: "take" });
  expect(await pass(third.readJobs(["of-1"]))).toMatchObject([{ state: "running", attempt: 1 }]);
  await pass(third.close());
});

test("of two newcomers at once one remains: who is fenced before it has begun fences again", async () => {
  const { bucket, process, openWriter, open, pass } = useBucket();
  await openWriter(process(1));
  const own = bucket.open();
  let other: Store | null = null;
  const put: Objects["put"] = async (name, bytes, ifAbsent) => {
    const answer = await own.put(name, bytes, ifAbsent);
    // Its fence is the first record that it puts; then another newcomer fences it.
    if (name.startsWith(logPrefix) && other === null)
      other = await openBucketStore({ objects: bucket.open(), platform: process(3), whenHeld: "take" });
    return answer;
  };
  const get = own.get.bind(own);
  const list = own.list.bind(own);
  const remove = own.remove.bind(own);
  const close = own.close.bind(own);
  const store = await open(process(2), { objects: { put, get, list, remove, close }, whenHeld: "take" });
  const late = other as unknown as Store;
  await expect(pass(late.submit([{ jobs: [aJob({ id: "late" })] }]))).rejects.toMatchObject({
    code: "store-fenced",
  });
  await pass(store.submit([{ jobs: [aJob({ id: "acknowledged" })] }]));
  await pass(store.close());
  await pass(late.close());
  const next = await open(process(4));
  expect((await pass(next.readJobs(["acknowledged", "late"]))).map((job) => job?.id)).toEqual([
    "acknowledged",
    undefined,
  ]);
  await pass(next.close());
});
