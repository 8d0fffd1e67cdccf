/**
 * Removes what marks have made needless: records of the log, chunks that no mark names, marks.
 *
 * What stays: everything that the newest mark needs, and everything from the second newest mark on that is older than
 * the grace. So a damaged chunk of the newest mark costs nothing (an older one and the log after it give the same
 * file), and the slots of the log stay filled for an hour: a writer that sleeps is kept out by the objects in its
 * slots. Nothing is removed after somebody else's mark was seen.
 *
 * All of it is found by listing, so that what earlier writers and failed checkpoints left goes too.
 */
import type { Platform } from "../../../platform/platform.ts";
import {
  chunkOf,
  chunkPrefix,
  logName,
  logPrefix,
  markFrom,
  markName,
  markPrefix,
  numberOf,
} from "../layout.ts";
import type { Mark } from "../layout.ts";
import { momentOf } from "../moment.ts";
import type { Moment } from "../moment.ts";
import type { Objects } from "../objects/objects.ts";
import type { BucketTuning } from "../tuning.ts";

/** As many as one request of S3 removes. Before each of them the marks are listed again. */
const deletesAtOnce = 1000;

/** How many times the grace a writer waits that has just begun. */
const youngWriterGraces = 24;

export interface CleanUpOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  readonly isFenced: () => boolean;
  readonly tuning: BucketTuning;
}

export class CleanUp {
  readonly #options: CleanUpOptions;
  #doneAtUs = Number.NEGATIVE_INFINITY;
  /** Both clocks at the beginning: if the wall clock leaps forward, the grace must not end early. */
  readonly #begun: Moment;
  /** When each mark was made, by its number: most of them are asked for again at the next clean-up. */
  #times = new Map<number, number>();

  constructor(options: CleanUpOptions) {
    this.#options = options;
    this.#begun = momentOf(options.platform);
  }

  /** `newest`: the mark that this writer has just put. */
  async run(newest: Mark): Promise<void> {
    const { platform, tuning } = this.#options;
    if (platform.monotonicUs() - this.#doneAtUs < tuning.cleanUpEveryMs * 1000) return;
    this.#doneAtUs = platform.monotonicUs();
    const oldest = await this.#oldestToKeep(newest);
    if (oldest === null) return;
    const isNamed = (no: number, label: number): boolean =>
      oldest.chunks[no]?.[0] === label || newest.chunks[no]?.[0] === label;
    const isOldChunk = (name: string): boolean => {
      const { no, n } = chunkOf(name);
      return n <= oldest.from && !isNamed(no, n);
    };
    const isOldRecord = (name: string): boolean => name <= logName(oldest.from);
    if (!(await this.#removeFrom(logPrefix, null, isOldRecord, newest))) return;
    if (!(await this.#removeFrom(chunkPrefix, null, isOldChunk, newest))) return;
    await this.#removeFrom(markPrefix, markName(oldest.through), () => true, newest);
  }

  /** The second newest mark that is older than the grace; null if there are fewer. */
  async #oldestToKeep(newest: Mark): Promise<Mark | null> {
    const { objects, platform, tuning } = this.#options;
    const elapsedMs = (platform.monotonicUs() - this.#begun.monotonicUs) / 1000;
    // The marks of earlier writers carry times of other clocks. A writer that sleeps looks for marks after `sleptMs`,
    // so until twice that time has passed here, one hour by those clocks is not enough.
    const graceMs = elapsedMs < 2 * tuning.sleptMs ? youngWriterGraces * tuning.graceMs : tuning.graceMs;
    const oldFrom = Math.min(platform.now(), this.#begun.nowMs + elapsedMs) - graceMs;
    const times = new Map([[newest.through, newest.at]]);
    let past = 0;
    for (let after: string | null = null; ;) {
      const { names, isLast } = await objects.list(markPrefix, after);
      for (const name of names) {
        const through = numberOf(name);
        if (through > newest.through) return null;
        let at = times.get(through) ?? this.#times.get(through);
        let mark: Mark | null = null;
        if (at === undefined) {
          mark = await this.#read(name);
          if (mark === null) continue;
          at = mark.at;
        }
        times.set(through, at);
        if (at > oldFrom) continue;
        past += 1;
        if (past < 2) continue;
        this.#times = times;
        return mark ?? this.#read(name);
      }
      if (isLast) break;
      after = names.at(-1) as string;
    }
    this.#times = times;
    return null;
  }

  async #read(name: string): Promise<Mark | null> {
    const bytes = await this.#options.objects.get(name);
    return bytes === null ? null : markFrom(bytes, name);
  }

  /** False: somebody else has made a mark, and this writer removes nothing more. */
  async #removeFrom(
    prefix: string,
    start: string | null,
    isOld: (name: string) => boolean,
    newest: Mark,
  ): Promise<boolean> {
    const { objects } = this.#options;
    for (let after = start; ;) {
      const { names, isLast } = await objects.list(prefix, after);
      const old = names.filter(isOld);
      for (let at = 0; at < old.length; at += deletesAtOnce) {
        if (!(await this.#isNewest(newest))) return false;
        await objects.remove(old.slice(at, at + deletesAtOnce));
      }
      // Log records are listed in their order: after the first that stays all stay.
      if (isLast || (prefix === logPrefix && old.length < names.length)) return true;
      after = names.at(-1) as string;
    }
  }

  async #isNewest({ through }: Mark): Promise<boolean> {
    if (this.#options.isFenced()) return false;
    const { names } = await this.#options.objects.list(markPrefix, null);
    return names[0] === undefined || numberOf(names[0]) === through;
  }
}
