/**
 * A sketch of many durations: counts in buckets whose bounds grow by 2 %, so every quantile has a relative error of at
 * most 1 % (the layout of DDSketch). Two sketches are merged by adding their buckets. The result equals one sketch over
 * all values: percentiles are never averaged.
 *
 *   bucket 0          up to 1 us
 *   bucket i          above growth^(i-1) us, up to growth^i us
 *   the last bucket   everything above 40 days
 *
 * Adding a value allocates nothing once the largest one was seen.
 */
export const relativeError = 0.01;
const growth = (1 + relativeError) / (1 - relativeError);
const perLog = 1 / Math.log(growth);
/** Above the bucket of 40 days. */
const bucketsMax = 1450;
const firstSize = 512;

export class Sketch {
  count = 0;
  sumUs = 0;
  maxUs = 0;
  #buckets = new Float64Array(0);

  add(us: number): void {
    this.count += 1;
    if (us <= 0) return this.#count(0, 1);
    this.sumUs += us;
    if (us > this.maxUs) this.maxUs = us;
    this.#count(bucketOf(us), 1);
  }

  merge(other: Sketch): void {
    this.count += other.count;
    this.sumUs += other.sumUs;
    this.maxUs = Math.max(this.maxUs, other.maxUs);
    other.#each((bucket, count) => this.#count(bucket, count));
  }

  /** @param share from 0 to 1. @returns 0 for an empty sketch. */
  quantileUs(share: number): number {
    const rank = share * (this.count - 1);
    let below = 0;
    for (let bucket = 0; bucket < this.#buckets.length; bucket++) {
      below += this.#buckets[bucket] as number;
      if (below > rank) return Math.min(middleUs(bucket), this.maxUs);
    }
    return this.maxUs;
  }

  /** How many values are not above this, including values up to 2 % above it in the same bucket. */
  countUpTo(us: number): number {
    const last = bucketOf(us);
    let below = 0;
    for (let bucket = 0; bucket <= last && bucket < this.#buckets.length; bucket++)
      below += this.#buckets[bucket] as number;
    return below;
  }

  /**
   * As numbers: the sum, the greatest value, the number of buckets, and for each bucket its distance from the one
   * before and its count.
   */
  numbers(): readonly number[] {
    const pairs: number[] = [];
    let before = 0;
    this.#each((bucket, count) => {
      pairs.push(bucket - before, count);
      before = bucket;
    });
    return [Math.round(this.sumUs), Math.round(this.maxUs), pairs.length / 2, ...pairs];
  }

  /** Adds a packed sketch. @param next returns the next number with each call. */
  absorb(next: () => number): void {
    this.sumUs += next();
    this.maxUs = Math.max(this.maxUs, next());
    let bucket = 0;
    for (let left = next(); left > 0; left--) {
      bucket += next();
      const count = next();
      if (bucket >= bucketsMax) throw new RangeError("a bucket of a sketch is out of range");
      this.count += count;
      this.#count(bucket, count);
    }
  }

  /** Visits buckets that are not empty, in ascending order. */
  #each(visit: (bucket: number, count: number) => void): void {
    for (let bucket = 0; bucket < this.#buckets.length; bucket++) {
      const count = this.#buckets[bucket] as number;
      if (count > 0) visit(bucket, count);
    }
  }

  #count(bucket: number, by: number): void {
    if (bucket >= this.#buckets.length) this.#grow(bucket);
    (this.#buckets[bucket] as number) += by;
  }

  #grow(bucket: number): void {
    const grown = new Float64Array(bucket < firstSize ? firstSize : bucketsMax);
    grown.set(this.#buckets);
    this.#buckets = grown;
  }
}

function bucketOf(us: number): number {
  return us <= 1 ? 0 : Math.min(bucketsMax - 1, Math.ceil(Math.log(us) * perLog));
}

/** The value whose relative distance from every value of the bucket is smallest. */
function middleUs(bucket: number): number {
  return bucket === 0 ? 1 : (2 * growth ** bucket) / (growth + 1);
}
