/**
 * How long finished jobs and the feed are kept, and how many jobs, as the store's own setting: one document that keeps,
 * for each outcome, the longest time and the greatest count that any process has declared (`retention`, `feedRetention`
 * of open). So no process prunes, by a smaller setting of its own, what another one has promised. Only `set` makes one
 * of them smaller.
 *
 * Always true: until the document was read nothing is pruned and no job's end leaves its history out.
 */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { defaultRetention } from "../../model/job/job-policy.ts";
import type { KeptCounts, KeptHistory, Retention } from "../../model/job/job-policy.ts";
import { checkOptions } from "../../model/option.ts";
import type { Store } from "../../store/store.ts";
import { changePut } from "../fleet/change-numbers.ts";
import { keptOutcomes, readCount, readKept } from "./kept-options.ts";
import type { KeptOptions } from "./kept-options.ts";
import type { Logger } from "../log/logger.ts";

export type KeptTimes = KeptHistory & { readonly feedMs?: number };

/** What `mill.retention.set` takes: what is left out stays as it is. */
export interface StoreRetentionOptions extends KeptOptions {
  feed?: Duration;
}

/** What is in force: times in milliseconds, and counts of each queue where there are any. */
export type DecidedTimes = Readonly<Record<keyof Retention | "feedMs", number>> & KeptCounts;

export const defaultTimes: DecidedTimes = { ...defaultRetention, feedMs: defaultRetention.completedMs };
const timeNames = Object.keys(defaultTimes) as (keyof DecidedTimes)[];
const countNames = keptOutcomes.map((outcome) => `${outcome}Count` as const);
const boundNames = [...timeNames, ...countNames];

const document = { kind: "settings", id: "retention" } as const;
/** As many processes as may open in the same moment. */
const triesMax = 100;

interface Found {
  /** Null where the document cannot be read. */
  readonly times: KeptTimes | null;
  readonly version: number;
}

export class StoreRetention {
  readonly #store: Pick<Store, "readDocs" | "putDocs">;
  readonly #declared: KeptTimes;
  #isDeclared: boolean;
  #known: DecidedTimes | null = null;
  readonly #learned: (known: DecidedTimes) => void;

  /**
   * @param declared what the options of this process keep; what is left out it leaves to the store.
   * @param learned called with the times in force whenever they were read.
   */
  constructor(
    store: Pick<Store, "readDocs" | "putDocs">,
    declared: KeptTimes,
    learned: (known: DecidedTimes) => void = () => undefined,
  ) {
    this.#store = store;
    this.#declared = declared;
    this.#isDeclared = Object.keys(declared).length === 0;
    this.#learned = learned;
  }

  /** The options of this process say how long to keep jobs, and the store does not know it yet. */
  get isUndeclared(): boolean {
    return !this.#isDeclared;
  }

  /** As they were last read; null before that. */
  get known(): DecidedTimes | null {
    return this.#known;
  }

  /** The times in force. A process whose options have longer ones raises them first. */
  async learn(): Promise<DecidedTimes> {
    if (this.#isDeclared) return this.#heed(known((await this.#read()).times));
    const times = await this.#write((found) => raised(known(found), this.#declared));
    this.#isDeclared = true;
    return this.#heed(times);
  }

  /**
   * Reads the times, if they matter before the retention duty comes: an outcome of which nothing is kept, or times that
   * the store does not know yet. Unless they can be read everything is kept.
   */
  async hear(log: Logger): Promise<void> {
    const mayLeaveOut = Object.values(this.#known ?? {}).includes(0);
    if (!mayLeaveOut && this.#isDeclared) return;
    try {
      await this.learn();
    } catch (error) {
      log.debug("the retention of the store could not be read", { error });
    }
  }

  get(): Promise<DecidedTimes> {
    return this.learn();
  }

  /**
   * Sets times and counts, smaller ones too, for all processes. A process that opens later with a greater `retention`
   * raises them again.
   */
  async set(options: StoreRetentionOptions): Promise<DecidedTimes> {
    const what = "retention.set";
    const { feed, ...rest } = checkOptions(options, what, [...keptOutcomes, "feed"]);
    const next: KeptTimes = {
      ...readKept(rest, what),
      ...(feed === undefined ? {} : { feedMs: durationMs(feed, `${what}.feed`) }),
    };
    return this.#heed(await this.#write((found) => ({ ...found, ...next })));
  }

  /** Compare and set, until no other process was faster. @returns what stands there. */
  async #write(change: (found: KeptTimes | null) => KeptTimes): Promise<KeptTimes> {
    for (let tries = 0; tries < triesMax; tries++) {
      const { times, version } = await this.#read();
      const next = change(times);
      if (times !== null && boundNames.every((bound) => next[bound] === times[bound])) return times;
      const guard = version === 0 ? ("absent" as const) : { version };
      const put = { ...document, body: JSON.stringify(next), guard };
      const [answer] = await this.#store.putDocs([put, changePut("settings")]);
      if (answer?.kind === "ok") return next;
    }
    throw new MillraceError(
      "version-conflict",
      "The retention of the store changes all the time; try again.",
    );
  }

  async #read(): Promise<Found> {
    const { docs } = await this.#store.readDocs({ kind: document.kind, ids: [document.id] });
    const [doc] = docs;
    return doc === undefined
      ? { times: {}, version: 0 }
      : { times: readBody(doc.body), version: doc.version };
  }

  #heed(times: KeptTimes): DecidedTimes {
    this.#known = { ...defaultTimes, ...times };
    this.#learned(this.#known);
    return this.#known;
  }
}

/** The longer times and the greater counts; one that only one side names is as that side says. */
function raised(found: KeptTimes, declared: KeptTimes): KeptTimes {
  const named = boundNames.filter((bound) => found[bound] !== undefined || declared[bound] !== undefined);
  const greater = (bound: (typeof boundNames)[number]): number | null => {
    const values = [found[bound], declared[bound]];
    return values.includes(null) ? null : Math.max(...values.map((value) => value ?? 0));
  };
  return Object.fromEntries(named.map((bound) => [bound, greater(bound)]));
}

/** Nobody may prune by a document that cannot be read, so that is an error; `set` replaces it. */
function known(times: KeptTimes | null): KeptTimes {
  if (times !== null) return times;
  throw new MillraceError(
    "store-corrupt",
    "The retention that the store keeps cannot be read; nothing is pruned until retention.set() names it anew.",
  );
}

function readBody(body: string): KeptTimes | null {
  try {
    const kept = JSON.parse(body) as Record<string, unknown>;
    const read = (names: readonly string[], value: (given: unknown, name: string) => number | null): object =>
      Object.fromEntries(names.filter((name) => name in kept).map((name) => [name, value(kept[name], name)]));
    return { ...read(timeNames, durationMs), ...read(countNames, readCount) };
  } catch {
    return null;
  }
}
