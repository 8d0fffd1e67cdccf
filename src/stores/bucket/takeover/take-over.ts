/**
 * Becoming the only writer. A fence record is put some slots after the end of the log, so that a living writer cannot
 * win the race for that slot again and again: racing for the next slot took 7 to 20 s against one. Then the slots
 * before the fence are filled: either the old writer got its record in, which is applied, or a void record keeps it
 * out for ever. From then on no put of the old writer can land.
 */
import type { Platform } from "../../../platform/platform.ts";
import { isPassed, logName } from "../layout.ts";
import { decodeRecord, emptyRecord } from "../log/log-record.ts";
import type { Replica } from "../copy/replica.ts";
import type { Objects } from "../objects/objects.ts";

const firstDistance = 2;
const distanceMax = 1024;

export interface Writer {
  /** 32 hexadecimal digits. */
  readonly id: string;
  /** What it says of its process: `WriterNote` as JSON. */
  readonly note: string;
}

/**
 * Afterwards the replica has every record that counts. @returns the new epoch; null if it yields and another newcomer
 * came first, so that of two processes that stood by one goes on standing by.
 */
export async function takeOver(
  objects: Objects,
  replica: Replica,
  { writer, platform, yields }: { writer: Writer; platform: Platform; yields: boolean },
): Promise<number | null> {
  const before = replica.writer;
  const isOutrun = (): boolean => yields && replica.writer !== before && !replica.isFree;
  for (;;) {
    const fence = await putFence(objects, replica, { writer, platform, yields, isOutrun });
    if (fence === null) return null;
    const { slot, epoch } = fence;
    await fillBefore(objects, replica, { slot, epoch, writer: writer.id, platform });
    // Another newcomer may have fenced after this one, or before it with the same epoch.
    const isOurs = replica.writer === writer.id && replica.n === slot;
    if (!isOurs || replica.epoch !== epoch || replica.hasDoubtfulFence) continue;
    // An opener that slept, or stood by behind a log that was cut, may have put all of this into removed slots.
    if (!(await isPassed(objects, slot))) return epoch;
    await replica.restoreAgain();
  }
}

async function putFence(
  objects: Objects,
  replica: Replica,
  {
    writer,
    platform,
    yields,
    isOutrun,
  }: { writer: Writer; platform: Platform; yields: boolean; isOutrun: () => boolean },
): Promise<{ slot: number; epoch: number } | null> {
  let { epoch: highest } = replica;
  for (let distance = firstDistance; ; distance = Math.min(2 * distance, distanceMax)) {
    await replica.catchUp();
    if (isOutrun()) return null;
    highest = Math.max(highest, replica.epoch);
    const slot = replica.n + distance;
    const epoch = highest + 1;
    const { id, note } = writer;
    const head = { epoch, writer: id, at: platform.now(), pageSize: replica.pageSize };
    const { bytes } = emptyRecord("fence", slot, { ...head, note });
    if ((await objects.put(logName(slot), bytes, true)) === "stored") return { slot, epoch };
    const there = await objects.get(logName(slot));
    if (there === null) continue;
    // The reply of an earlier try was lost.
    if (Buffer.compare(there, bytes) === 0) return { slot, epoch };
    const record = decodeRecord(slot, there);
    if (yields && record.kind === "fence") return null;
    highest = Math.max(highest, record.epoch);
  }
}

async function fillBefore(
  objects: Objects,
  replica: Replica,
  { slot, epoch, writer, platform }: { slot: number; epoch: number; writer: string; platform: Platform },
): Promise<void> {
  for (;;) {
    await replica.catchUp();
    if (replica.n >= slot) return;
    const n = replica.n + 1;
    if (await isPassed(objects, n)) {
      // Written meanwhile, or written and removed.
      if ((await replica.catchUp()) === 0) await replica.restoreAgain();
      continue;
    }
    const { bytes } = emptyRecord("void", n, {
      epoch,
      writer,
      at: platform.now(),
      pageSize: replica.pageSize,
    });
    await objects.put(logName(n), bytes, true);
  }
}
