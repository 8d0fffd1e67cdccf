/**
 * Job ids: 21 characters of a 64-letter alphabet in ASCII order, so that ids sort by the time they were minted. All letters are safe in
 * a URL, and an id never starts with a dash, which a command line would take for an option.
 *
 *   8 characters  48 bits  milliseconds since 1970
 *   3 characters  18 bits  8 bits shard, 10 bits partition
 *  10 characters  60 bits  random, counting up inside a millisecond
 *
 * Minted by the client, so that repeating a submit whose reply was lost cannot make a second job.
 */

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

export interface IdSources {
  /** Wall clock; it only orders ids roughly and decides nothing. */
  readonly now: () => number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

const low = 2 ** 30;

export function createIdMinter(
  sources: IdSources,
  place: { shard: number; partition: number } = { shard: 0, partition: 0 },
): () => string {
  const placed = digits(place.shard * 1024 + place.partition, 3);
  let lastMs = -1;
  let prefix = "";
  let high = 0;
  let highText = "";
  let counter = 0;
  return () => {
    const now = sources.now();
    if (now > lastMs) {
      lastMs = now;
      prefix = digits(now, 8) + placed;
      high = Math.floor(sources.random() * low);
      highText = digits(high, 5);
      // The upper half stays free for counting up inside this millisecond.
      counter = Math.floor(sources.random() * (low / 2));
    } else if (++counter >= low) {
      counter = 0;
      high = (high + 1) % low;
      highText = digits(high, 5);
    }
    return prefix + highText + digits(counter, 5);
  };
}

function digits(value: number, length: number): string {
  let text = "";
  for (let place = length; place > 0; place--) {
    text = (alphabet[value % 64] as string) + text;
    value = Math.floor(value / 64);
  }
  return text;
}
