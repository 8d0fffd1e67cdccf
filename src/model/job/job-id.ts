/**
 * Job ids: 21 characters of a 64-letter alphabet in ASCII order, so that ids sort by the time they were minted. All
 * characters are safe in a URL. An id never starts with a dash, which a command line would read as an option.
 *
 *   8 characters  48 bits  milliseconds since 1970
 *   3 characters  18 bits  8 bits shard, 10 bits partition
 *  10 characters  60 bits  random, counting up inside a millisecond
 *
 * Clients mint the ids, so that repeating a submit whose reply was lost cannot make a second job.
 */
import { hashPair } from "../text-hash.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

interface IdSources {
  /** The wall clock. It only orders ids roughly and decides nothing. */
  readonly now: () => number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

/** All numbers of two digits. */
const pairs = Array.from(
  { length: alphabet.length ** 2 },
  (_, at) => alphabet.charAt(Math.floor(at / alphabet.length)) + alphabet.charAt(at % alphabet.length),
);
const low = 2 ** 30;
const partitionCodes = 1024;
export const mintedChars = 21;
const mintedForm = /^[0-9A-Z_a-z~]{21}$/;

/**
 * If the caller names no partition, one is drawn for each millisecond: jobs spread evenly, and jobs that are enqueued
 * together still share one call.
 */
export function createIdMinter(
  sources: IdSources,
  { shard = 0, partitions = 1 }: { readonly shard?: number; readonly partitions?: number } = {},
): (partition?: number) => string {
  let lastMs = -1;
  let time = "";
  let drawn = "";
  let high = 0;
  let counter = 0;
  /**
   * An id without its last two digits, which 4096 ids of a millisecond share; and the part of it after the partition.
   */
  let [head, tail] = ["", ""];
  const partitionDigits = (partition: number): string => digits(shard * partitionCodes + partition, 3);
  const countOn = (): void => {
    tail = digits(high, 5) + digits(Math.floor(counter / pairs.length), 3);
    head = time + drawn + tail;
  };
  return (partition) => {
    const now = sources.now();
    if (now > lastMs) {
      lastMs = now;
      time = digits(now, 8);
      drawn = partitionDigits(partitions === 1 ? 0 : Math.floor(sources.random() * partitions));
      high = Math.floor(sources.random() * low);
      // Starting in the lower half leaves room to count up inside this millisecond.
      counter = Math.floor(sources.random() * (low / 2));
      countOn();
    } else {
      counter += 1;
      if (counter >= low) {
        counter = 0;
        high = (high + 1) % low;
      }
      if (counter % pairs.length === 0) countOn();
    }
    const last = pairs[counter % pairs.length] as string;
    return partition === undefined ? head + last : time + partitionDigits(partition) + tail + last;
  };
}

/**
 * An id of the same form that is derived from a text instead of drawn. Every process derives the same id, so at most
 * one of them makes the job. Two texts of one millisecond and partition collide with a probability of one in 2^60.
 */
export function deriveId({
  of,
  at,
  partition = 0,
}: {
  readonly of: string;
  readonly at: number;
  readonly partition?: number;
}): string {
  const { low: one, high: other } = hashPair(of);
  return digits(at, 8) + digits(partition, 3) + digits(one % low, 5) + digits(other % low, 5);
}

/** The partition that an id of the minted form carries; null for an id of another form. */
export function mintedPartition(id: string): number | null {
  if (!mintedForm.test(id)) return null;
  const digit = (at: number): number => alphabet.indexOf(id.charAt(at));
  return (digit(8) * 4096 + digit(9) * 64 + digit(10)) % partitionCodes;
}

function digits(value: number, length: number): string {
  let text = "";
  for (let left = length; left > 0; left--) {
    text = (alphabet[value % 64] as string) + text;
    value = Math.floor(value / 64);
  }
  return text;
}
