/**
 * A log line that a loop would write at every turn while something fails: it is written when the trouble begins, and
 * then once a minute with `times`, how often it came since. Trouble that comes and goes is one trouble: after its line
 * the next one is written 10 s later at the earliest.
 *
 *   quiet ──say──► written ──say──► counted ──a minute after the last line, say──► written, with the count
 *     ▲               └──over──┐       └──over: logged at the level info, with the count──┐
 *     └────────────────────────┴────────────────────────────────────────────────────────┘
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import type { Platform } from "../../platform/platform.ts";
import type { LogFields, Logger } from "./logger.ts";

const everyUs = 60_000_000;
const againUs = 10_000_000;
/** Kinds of trouble that are kept apart at one time. */
const linesMax = 100;

interface Surroundings {
  readonly log: Logger;
  readonly platform: Pick<Platform, "monotonicUs">;
}

export class RepeatedLine {
  readonly #log: Logger;
  readonly #platform: Pick<Platform, "monotonicUs">;
  readonly #level: "warn" | "error";
  readonly #message: string;
  #isTrouble = false;
  #writtenUs = Number.NEGATIVE_INFINITY;
  /** How often it came since the last line. */
  #unwritten = 0;

  constructor({ log, platform }: Surroundings, level: "warn" | "error", message: string) {
    this.#log = log;
    this.#platform = platform;
    this.#level = level;
    this.#message = message;
  }

  /** It happened (again). */
  say(fields: LogFields): void {
    const nowUs = this.#platform.monotonicUs();
    const restUs = this.#isTrouble ? everyUs : againUs;
    this.#isTrouble = true;
    this.#unwritten += 1;
    if (nowUs - this.#writtenUs < restUs) return;
    const times = this.#unwritten === 1 ? {} : { times: this.#unwritten };
    this.#log[this.#level](this.#message, { ...fields, ...times });
    this.#writtenUs = nowUs;
    this.#unwritten = 0;
  }

  /** It works again. Cheap, so that it may be called after every success. */
  over(): void {
    if (!this.#isTrouble) return;
    this.#isTrouble = false;
    const nowUs = this.#platform.monotonicUs();
    if (this.#unwritten === 0 || nowUs - this.#writtenUs < againUs) return;
    this.#log.info(`over: ${this.#message}`, { times: this.#unwritten });
    this.#writtenUs = nowUs;
    this.#unwritten = 0;
  }
}

/**
 * Lines about trouble that many places of a process run into, told apart by their message. Nobody says when it is over.
 */
export class RepeatedLines {
  readonly #around: Surroundings;
  readonly #lines = new BoundedMap<string, RepeatedLine>(linesMax);

  constructor(around: Surroundings) {
    this.#around = around;
  }

  say(level: "warn" | "error", message: string, fields: LogFields = {}): void {
    let line = this.#lines.get(message);
    if (line === undefined) this.#lines.set(message, (line = new RepeatedLine(this.#around, level, message)));
    line.say(fields);
  }
}
