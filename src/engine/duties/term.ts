/**
 * A term: the right to do a duty for all processes of a store, for a while by the store's clock. For most duties terms
 * only save work: they do no harm when two processes do them, so a term that ends early or is lost with a reply costs
 * one walk too many and nothing else. Where two would be in each other's way, the check of the term travels with the
 * duty's writes.
 */
import type { DocCheck, DocPut } from "../../store/records.ts";
import type { Engine } from "../engine.ts";

const termKind = "term";
/**
 * The process that has the term makes it longer once this share of it is over: one write for each step of a walk would
 * cost more than the step.
 */
const renewedAfter = 1 / 3;

export class Term {
  readonly #engine: Engine;
  readonly #name: string;
  readonly #lengthMs: number;
  #version = 0;
  #madeUs = 0;

  constructor(engine: Engine, name: string, lengthMs: number) {
    this.#engine = engine;
    this.#name = name;
    this.#lengthMs = lengthMs;
  }

  /** Takes the term, or makes it longer when a good part of it is over. @returns false while another process has it. */
  async take(): Promise<boolean> {
    const sinceUs = this.#engine.platform.monotonicUs() - this.#madeUs;
    if (this.#version > 0 && sinceUs < this.#lengthMs * 1000 * renewedAfter) return true;
    try {
      if (this.#version > 0 && (await this.#put({ version: this.#version }))) return true;
      // The term has run out, or was never ours: it is free unless another process was faster.
      return await this.#put("absent");
    } catch (error) {
      // The partition in which the term lies fails: whoever had the term goes on in the others.
      if (this.#version > 0 && (this.#engine.store.missing?.().length ?? 0) > 0) return true;
      throw error;
    }
  }

  /**
   * Holds only for as long as this process has the term: in the same unit as the writes of a duty that should be done by
   * one, it refuses all of them to who has lost the term without knowing it. Null for who has none.
   */
  check(): DocCheck | null {
    return this.#version === 0 ? null : { kind: termKind, id: this.#name, version: this.#version };
  }

  /** Lets another process take the term at once; nothing is written by a process that does not have it. */
  async giveBack(): Promise<void> {
    const version = this.#version;
    this.#version = 0;
    if (version === 0) return;
    await this.#engine.store.putDocs([{ kind: termKind, id: this.#name, body: null, guard: { version } }]);
  }

  async #put(guard: "absent" | { readonly version: number }): Promise<boolean> {
    const sentUs = this.#engine.platform.monotonicUs();
    const [answer] = await this.#engine.store.putDocs([this.#putOf(guard)]);
    this.#madeUs = sentUs;
    this.#version = answer?.kind === "ok" ? answer.version : 0;
    return answer?.kind === "ok";
  }

  #putOf(guard: DocPut["guard"]): DocPut {
    const { hostName, processId } = this.#engine.platform;
    const body = JSON.stringify({ process: `${hostName}:${processId}` });
    return { kind: termKind, id: this.#name, body, guard, expiresInMs: this.#lengthMs };
  }
}
