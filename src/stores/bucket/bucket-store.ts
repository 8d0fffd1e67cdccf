/**
 * Durable jobs in a bucket: the SQLite store, unchanged, plus a log of its pages in object storage. The local file is
 * only a copy. See docs/decisions/0035-bucket-is-a-log-of-pages.md.
 *
 *  bucket-store ─► sqlite-store ─► commit ─► wal-tail ─► log-writer ─► objects (put if absent)
 *               └► replica (mark, chunks, log) ─► held ─► take-over      └► checkpoint (chunks, mark)
 */
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { bucketError } from "./bucket-errors.ts";
import { readReplicaVersion } from "./copy/bucket-version.ts";
import { cacheError, makeCacheFolder } from "./copy/cache-folder.ts";
import type { CacheFolder } from "./copy/cache-folder.ts";
import { Checkpoints } from "./checkpoint/checkpoint.ts";
import { noteOf, pause, untilFree } from "./takeover/held-bucket.ts";
import type { WhenHeld } from "./takeover/held-bucket.ts";
import { damaged, headFrom, headName, isPassed, layoutVersion, headBytes } from "./layout.ts";
import type { Head } from "./layout.ts";
import { findHole } from "./restore/history.ts";
import { LogWriter } from "./log/log-writer.ts";
import type { LogWitness } from "./log/log-writer.ts";
import { momentOf } from "./moment.ts";
import type { Moment } from "./moment.ts";
import { CountedObjects } from "./objects/counted.ts";
import { UnknownCondition } from "./objects/objects.ts";
import type { Objects } from "./objects/objects.ts";
import { retrying } from "./objects/retrying.ts";
import { readPrices, requestsOf } from "./prices.ts";
import type { BucketPrices } from "./prices.ts";
import { Replica } from "./copy/replica.ts";
import { takeOver } from "./takeover/take-over.ts";
import type { Writer } from "./takeover/take-over.ts";
import { defaultTuning } from "./tuning.ts";
import type { BucketTuning } from "./tuning.ts";
import { WalTail } from "./log/wal-tail.ts";

export interface BucketOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  /** What to do if another process writes to the bucket; "refuse" unless said otherwise. */
  readonly whenHeld?: WhenHeld;
  /** Ends the waiting for another process. */
  readonly signal?: AbortSignal;
  readonly onWaiting?: (sentence: string) => void;
  /** The folder for the local copy; the system's folder for temporary files unless said otherwise. */
  readonly cacheFolder?: string;
  /** How long a call waits for the bucket before its outcome is reported as unknown. */
  readonly callTimeoutMs?: number;
  /** What requests cost, for `describe`; S3's unless said otherwise. */
  readonly prices?: Partial<BucketPrices>;
  /** For tests. */
  readonly tuning?: Partial<BucketTuning>;
  readonly witness?: LogWitness;
  /** For tests: shows the local file after the close, before it is removed. */
  readonly onClosed?: (path: string) => Promise<void>;
}

const pageSize = 4096;
const defaultCallTimeoutMs = 30_000;

export async function openBucketStore(options: BucketOptions): Promise<Store> {
  const { platform, whenHeld = "refuse", callTimeoutMs = defaultCallTimeoutMs } = options;
  const prices = readPrices(options.prices, "open: bucket.prices");
  const counted = new CountedObjects(options.objects);
  const objects = retrying(counted, platform);
  let folder: CacheFolder | null = null;
  let replica: Replica | null = null;
  try {
    // A newer layout is refused before anything is made.
    const head = await readHead(objects, platform);
    folder = makeCacheFolder(options.cacheFolder ?? null, platform);
    replica = await Replica.restore(objects, { path: folder.path, pageSize: head.pageSize });
    const writer: Writer = {
      id: Buffer.from(platform.randomBytes(16)).toString("hex"),
      note: noteOf(platform),
    };
    const begun = await becomeWriter(objects, replica, writer, { ...options, whenHeld });
    return await openWriter(
      { ...options, objects, counted, prices, callTimeoutMs },
      { folder, replica, writer, ...begun },
    );
  } catch (error) {
    replica?.close();
    folder?.remove();
    await objects.close();
    const { temporaryFolder } = platform;
    throw cacheError(options.cacheFolder ?? temporaryFolder, bucketError(error, "did-not-happen"));
  }
}

/** A newcomer that died between its fence and the slots before it must not be waited for without end. */
const yieldsMax = 30;

/** Waits for its turn as `whenHeld` says, then takes over. */
async function becomeWriter(
  objects: Objects,
  replica: Replica,
  writer: Writer,
  { platform, whenHeld, signal, onWaiting }: BucketOptions & { readonly whenHeld: WhenHeld },
): Promise<Pick<Opened, "epoch" | "isAfterCrash" | "beganAt">> {
  for (let tries = 0; ; tries++) {
    await untilFree(replica, { whenHeld, signal, onWaiting }, platform);
    // One that stood by and slept while the log was removed behind it can only begin again.
    if ((await isPassed(objects, replica.n + 1)) && (await replica.catchUp()) === 0)
      await replica.restoreAgain();
    // Tables of a newer version are refused before anybody is fenced for them.
    readReplicaVersion(replica);
    const hole = await findHole(objects, replica);
    if (hole !== null) throw damaged(hole.object, hole.problem);
    const isAfterCrash = !replica.isFree;
    const beganAt = momentOf(platform);
    const yields = whenHeld !== "take" && tries < yieldsMax;
    const epoch = await takeOver(objects, replica, { writer, platform, yields });
    if (epoch !== null) return { epoch, isAfterCrash, beganAt };
    await pause(platform, signal);
    await replica.catchUp();
  }
}

interface Opened {
  readonly folder: CacheFolder;
  readonly replica: Replica;
  readonly writer: Writer;
  readonly epoch: number;
  readonly isAfterCrash: boolean;
  /** Before the fence was put. */
  readonly beganAt: Moment;
}

interface WriterOptions extends BucketOptions {
  readonly counted: CountedObjects;
  readonly prices: BucketPrices;
  readonly callTimeoutMs: number;
}

async function openWriter(
  options: WriterOptions,
  { folder, replica, writer, epoch, isAfterCrash, beganAt }: Opened,
): Promise<Store> {
  const { objects, counted, prices, platform, callTimeoutMs } = options;
  const opened: { log?: LogWriter; tail?: WalTail } = {};
  const log = (): LogWriter => opened.log as LogWriter;
  const tail = (): WalTail => opened.tail as WalTail;
  const tuning = { ...defaultTuning, ...options.tuning };
  const checkpoints = new Checkpoints({ tuning, objects, platform, replica, writer, epoch, log, tail });
  const store = await openSqliteStore({
    path: replica.path,
    platform,
    log: {
      epoch,
      open(database) {
        opened.tail = new WalTail(database, replica.path);
        opened.log = new LogWriter({
          // It waits in a way of its own: callers are answered while its put is tried again.
          ...{ objects: counted, platform, tail: opened.tail, writer, epoch, callTimeoutMs },
          ...{ isAfterCrash, beganAt },
          ...{ n: replica.n, digest: replica.digest, sleptMs: tuning.sleptMs, witness: options.witness },
          onPages: (pages) => checkpoints.notePages(pages),
          onRecord: (n) => checkpoints.noteRecord(n),
        });
        return opened.log;
      },
    },
  });
  const close = async (): Promise<void> => {
    try {
      await checkpoints.close();
      await store.close();
      await options.onClosed?.(replica.path);
    } finally {
      tail().close();
      replica.close();
      folder.remove();
      await objects.close();
    }
  };
  let closing: Promise<void> | null = null;
  return {
    ...store,
    async describe() {
      const description = await store.describe();
      return {
        ...description,
        kind: "bucket",
        durability: "strict",
        acknowledged: "An acknowledged call has landed in the bucket.",
        warnings: checkpoints.warnings(),
        requests: requestsOf(counted.counts, prices, log().settled),
      };
    },
    inTransaction() {
      const sentence =
        "A bucket cannot take part in a transaction of yours. Enqueue outside of it and use step.run instead of step.runIn, or use SQLite or Postgres.";
      throw new MillraceError("not-in-transaction", sentence);
    },
    close: () => (closing ??= close()),
  };
}

/** What the bucket says of itself; made by the first opener, which also tries whether conditions hold. */
async function readHead(objects: Objects, platform: Platform): Promise<Head> {
  const found = await objects.get(headName);
  if (found !== null) return headFrom(found);
  const head: Head = { layout: layoutVersion, pageSize, madeAt: platform.now() };
  const bytes = headBytes(head);
  await objects.put(headName, bytes, true).catch((error: unknown) => {
    if (!(error instanceof UnknownCondition)) throw error;
    throw new MillraceError("durability-refused", `The bucket cannot be used: ${error.message}.`, {
      cause: error,
    });
  });
  // Other bytes: a put that finds its own ones after a lost reply counts as stored.
  const others = headBytes({ ...head, madeAt: head.madeAt + 1 });
  if ((await objects.put(headName, others, true)) === "stored") {
    const sentence =
      "This object storage ignores the condition of a put-if-absent, so it cannot keep a second writer out. Use one with conditional writes.";
    throw new MillraceError("durability-refused", sentence);
  }
  return headFrom((await objects.get(headName)) as Uint8Array);
}
