/**
 * How long finished jobs and the feed are kept, as the store's own setting: one document that keeps, for each outcome,
 * the longest time that any process has declared (`retention`, `feedRetention` of open). So no process prunes, by a
 * shorter setting of its own, what another one has promised. Only `set` makes a time shorter.
 *
 * Always true: until the document was read nothing is pruned and no job's end leaves its history out.
 */
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { defaultRetention } from "../model/job-policy.ts";
import type { Retention } from "../model/job-policy.ts";
import { checkOptions } from "../model/option.ts";
import type { Store } from "../store/store.ts";
import { readRetention } from "./job-options.ts";
import type { RetentionOptions } from "./job-options.ts";

export interface KeptTimes extends Retention {
  readonly feedMs?: number;
}

/** What `mill.retention.set` takes: an outcome that is left out stays as it is. */
export interface StoreRetentionOptions extends RetentionOptions {
  feed?: Duration;
}

/** The times in force, in milliseconds. */
export type DecidedTimes = Readonly<Record<keyof KeptTimes, number>>;

export const defaultTimes: DecidedTimes = { ...defaultRetention, feedMs: defaultRetention.completedMs };
const outcomes = Object.keys(defaultTimes) as (keyof KeptTimes)[];

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
   * @param declared what this process was told to keep; what is left out it leaves to the store.
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

  /** This process was told how long to keep jobs, and the store does not know it yet. */
  get isUndeclared(): boolean {
    return !this.#isDeclared;
  }

  /** As they were last read; null before that. */
  get known(): DecidedTimes | null {
    return this.#known;
  }

  /** The times in force. A process that was told longer ones raises them first. */
  async learn(): Promise<DecidedTimes> {
    if (this.#isDeclared) return this.#heed(known((await this.#read()).times));
    const times = await this.#write((found) => raised(known(found), this.#declared));
    this.#isDeclared = true;
    return this.#heed(times);
  }

  get(): Promise<DecidedTimes> {
    return this.learn();
  }

  /**
   * Sets the times, shorter ones too, for all processes. A process that opens later with a longer `retention` raises
   * them again.
   */
  async set(options: StoreRetentionOptions): Promise<DecidedTimes> {
    const what = "retention.set";
    const { feed, ...rest } = checkOptions(options, what, ["completed", "failed", "other", "feed"]);
    const times: KeptTimes = {
      ...readRetention(rest, what),
      ...(feed === undefined ? {} : { feedMs: durationMs(feed, `${what}.feed`) }),
    };
    return this.#heed(await this.#write((found) => ({ ...found, ...times })));
  }

  /** Compare and set, until no other process was faster. @returns what stands there. */
  async #write(change: (found: KeptTimes | null) => KeptTimes): Promise<KeptTimes> {
    for (let tries = 0; tries < triesMax; tries++) {
      const { times, version } = await this.#read();
      const next = change(times);
      if (times !== null && outcomes.every((outcome) => next[outcome] === times[outcome])) return times;
      const guard = version === 0 ? ("absent" as const) : { version };
      const [answer] = await this.#store.putDocs([{ ...document, body: JSON.stringify(next), guard }]);
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

/** Of each outcome the longer time; one that only one side names is as that side says. */
function raised(found: KeptTimes, declared: KeptTimes): KeptTimes {
  const named = outcomes.filter((outcome) => (found[outcome] ?? declared[outcome]) !== undefined);
  return Object.fromEntries(
    named.map((outcome) => [outcome, Math.max(found[outcome] ?? 0, declared[outcome] ?? 0)]),
  );
}

/** Nobody may prune by a document that cannot be read, so that is an error; `set` mends it. */
function known(times: KeptTimes | null): KeptTimes {
  if (times !== null) return times;
  throw new MillraceError(
    "store-corrupt",
    "The retention that the store keeps cannot be read; nothing is pruned until retention.set() names it anew.",
  );
}

function readBody(body: string): KeptTimes | null {
  try {
    const times = JSON.parse(body) as Record<string, unknown>;
    const named = outcomes.filter((outcome) => outcome in times);
    return Object.fromEntries(named.map((outcome) => [outcome, durationMs(times[outcome], outcome)]));
  } catch {
    return null;
  }
}
