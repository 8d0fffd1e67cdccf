/**
 * A term: the right to do a duty for all processes of a store, until the process gives it back or dies (term-book.ts).
 * For most duties terms only save work: they do no harm when two processes do them, so a term that is lost with a reply
 * costs one walk too many and nothing else. Where two would be in each other's way, the check of the term travels with
 * the duty's writes.
 */
import type { DocCheck } from "../../store/records.ts";
import type { Engine } from "../engine.ts";
import { termKind } from "../term-book.ts";
import type { TermPlace } from "../term-book.ts";

export class Term {
  readonly #engine: Engine;
  readonly #place: TermPlace;

  constructor(engine: Engine, name: string) {
    this.#engine = engine;
    this.#place = { name, taken: null, isWanted: false, version: 0, other: null, learnedUs: 0 };
  }

  /** @param taken called when the term came to this process because its holder is no longer there. */
  whenTaken(taken: () => void): void {
    this.#place.taken = taken;
  }

  /** @returns false while another process has it; then this one takes the term as soon as that process is gone. */
  take(): Promise<boolean> {
    return this.#engine.terms.take(this.#place);
  }

  /**
   * Holds only for as long as this process has the term: in the same unit as the writes of a duty that should be done
   * by one, it refuses all of them to who has lost the term without knowing it. Null for who has none.
   */
  check(): DocCheck | null {
    const { name, version } = this.#place;
    return version === 0 ? null : { kind: termKind, id: name, version };
  }

  /** Lets another process take the term; nothing is written by a process that does not have it. */
  giveBack(): Promise<void> {
    return this.#engine.terms.giveBack(this.#place);
  }
}
