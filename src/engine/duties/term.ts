/**
 * A term: the right to do a duty for all processes of a store, for a while by the store's clock. Only to save work: the duty does no harm when
 * two processes do it, so a term that runs out early or is lost with a reply costs nothing but a walk.
 */
import type { Engine } from "../engine.ts";

const termKind = "term";

export class Term {
  readonly #engine: Engine;
  readonly #name: string;
  readonly #lengthMs: number;
  #version = 0;

  constructor(engine: Engine, name: string, lengthMs: number) {
    this.#engine = engine;
    this.#name = name;
    this.#lengthMs = lengthMs;
  }

  /** Takes the term or makes it longer. @returns false while another process has it. */
  async hold(): Promise<boolean> {
    if (this.#version > 0 && (await this.#put({ version: this.#version }))) return true;
    // Run out meanwhile, or never had: free unless somebody else was faster.
    return this.#put("absent");
  }

  async #put(guard: "absent" | { readonly version: number }): Promise<boolean> {
    const { hostName, processId } = this.#engine.platform;
    const body = JSON.stringify({ process: `${hostName}:${processId}` });
    const put = { kind: termKind, id: this.#name, body, guard, expiresInMs: this.#lengthMs };
    const [answer] = await this.#engine.store.putDocs([put]);
    this.#version = answer?.kind === "ok" ? answer.version : 0;
    return answer?.kind === "ok";
  }
}
