/**
 * The one call of the beat: what it writes to the registry and reads there rides with the claim that a worker of the
 * process makes in the same lap. Where none claims, because no slot is free, a claim is still under way or the store
 * is away, the documents go alone at the end of the lap.
 *
 *   beat ──carry──► waiting ──a worker claims──► one call: claim, puts, read
 *                      └──end of the lap──► putDocs and readDocs
 *
 * Always true: a claim without documents is the store's own, made in the same lap and answered by the same promise.
 */
import type { Engine } from "../engine/engine.ts";
import { MillraceError } from "../model/error.ts";
import type { ClaimAnswer, ClaimDocs, ClaimDocsAnswer, ClaimRequest } from "../store/operations.ts";

interface Waiting {
  readonly docs: ClaimDocs;
  readonly answered: (answer: Promise<ClaimDocsAnswer>) => void;
}

export class BeatCall {
  readonly #engine: Engine;
  #waiting: Waiting | null = null;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const waiting = this.#waiting;
    if (waiting === null) return this.#engine.store.claim(request);
    this.#waiting = null;
    const claiming = this.#engine.store.claim({ ...request, docs: waiting.docs });
    waiting.answered(claiming.then(docsOf));
    return claiming;
  }

  /** To be called before the workers are told to claim: who registers for the end of the lap later runs later. */
  carry(docs: ClaimDocs): Promise<ClaimDocsAnswer> {
    return new Promise((answered) => {
      this.#waiting = { docs, answered };
    });
  }

  /** The last claims of this lap are registered: what none of them takes along goes alone. */
  claimsAsked(): void {
    if (this.#waiting !== null) this.#engine.lap.atEnd(this.#goAlone);
  }

  readonly #goAlone = (): void => {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting !== null) waiting.answered(this.#call(waiting.docs));
  };

  async #call({ puts, read }: ClaimDocs): Promise<ClaimDocsAnswer> {
    const { store } = this.#engine;
    const [putAnswers, readAnswer] = await Promise.all([
      puts.length === 0 ? [] : store.putDocs(puts),
      read === null ? null : store.readDocs(read),
    ]);
    return { puts: putAnswers, read: readAnswer };
  }
}

function docsOf({ docs }: ClaimAnswer): ClaimDocsAnswer {
  if (docs === undefined)
    throw new MillraceError("outcome-unknown", "The partition of the registry did not answer.");
  return docs;
}
