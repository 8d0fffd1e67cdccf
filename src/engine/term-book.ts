/**
 * The terms of a process: which duties it does for all processes of the store, and who does the others.
 *
 * A term is a document that names its holder and is written only when it changes hands, under the version that was
 * there before: that version is the fence of the holder's writes. That the holder lives is said by one document for all
 * its terms, its sign, which lies in the registry of workers and runs out unless it is renewed:
 *
 *   term/NAME                       the holder's id            written by whoever takes the term
 *   worker/{workers}/holder/ID      lives for 3.4 s            renewed every 2.4 s at the latest, by processes
 *                                                             that hold a term
 *
 *   nobody's ──put if absent──► ours ──give back──► nobody's
 *                                │ its sign has run out
 *                                ▼
 *                       another takes it, under the version that it has seen
 *
 * Who waits for a term reads the sign of its holder, with the beat where there is one (worker/beat.ts) and by itself
 * where there is none. So a holder that was killed is replaced within 5 s, whatever the duties' sleeps are, and a
 * process without terms writes nothing. A holder that stops takes its sign away and rings: the others look at once. In
 * a process without a beat the same calls bring the bell of webhooks (worker-bell.ts).
 *
 * Always true: a sign is written before its process takes a term, so that a term without a sign is one whose holder is
 * gone or was stopped. A holder whose sign has run out takes its terms anew before it goes on, by their versions, and
 * so learns which it has lost.
 */
import type { Timer } from "../platform/platform.ts";
import type { PutDocAnswer } from "../store/operations.ts";
import type { Doc, DocGuard, DocPut } from "../store/records.ts";
import type { Engine } from "./engine.ts";
import { answersWithin } from "./race.ts";
import { rings, webhooksBellId } from "./worker-bell.ts";
import { workerDocId, workerKind } from "./worker-notice.ts";

export const termKind = "term";
const signMs = 3400;
const renewEveryMs = 2400;
/** A renewal that costs no call of its own comes earlier, but not more often than it has to. */
const renewLeastMs = 1200;
/** A renewal that failed is made again, while there is still time. */
const renewAgainMs = 400;
/**
 * A look that has nothing to wait for; longer than the beat's, which then brings the signs with what it reads anyway.
 */
const lookEveryMs = 3000;
/** The same for a process that does not know the store's time, because none of its workers claims. */
const lookBlindlyMs = 1000;
/** A sign is looked at so long behind its end: the holder may be renewing it right now. */
const behindEndMs = 200;
const lookLeastMs = 200;
/** Looks that a ring asks for are spread: the first takes the terms, and the others see it. */
const rungSpreadMs = 60;
/**
 * What is known of a term whose holder lives may be wrong for so long: the holder may have given back only this one.
 */
const trustedMs = 300_000;
const triesMax = 3;
const callMaxMs = 5000;

/** A term as its process knows it. */
export interface TermPlace {
  readonly name: string;
  taken: (() => void) | null;
  isWanted: boolean;
  /** Of the document while this process has the term, else 0. */
  version: number;
  /** Who has it, as far as this process knows. */
  other: { readonly holder: string; readonly version: number } | null;
  learnedUs: number;
}

export class TermBook {
  readonly #engine: Engine;
  readonly #holder: string;
  readonly #places = new Set<TermPlace>();
  /** Of the own sign; 0 for none. */
  #signVersion = 0;
  #signedUs = Number.NEGATIVE_INFINITY;
  #isSigning = false;
  /** The store's clock less the monotonic one, as the last claim told it; null before the first. */
  #storeAheadMs: number | null = null;
  #isClosed = false;
  /** The version of the bell of webhooks that was heard last. */
  #hooksHeard = 0;
  #last: Promise<unknown> = Promise.resolve();
  readonly #timers: Record<"look" | "renew", Timer | null> = { look: null, renew: null };
  /** Reads the registry, the watched signs with it; null in a process without workers. */
  readRegistry: (() => void) | null = null;
  /** No other process can ever use the store: nobody asks whether this one lives. */
  isAlone = false;

  constructor(engine: Engine) {
    const { hostName, processId } = engine.platform;
    this.#engine = engine;
    this.#holder = `${hostName}:${processId}:${engine.mintId()}`;
    engine.clocksTold.add((_nextDueInMs, now) => {
      this.#storeAheadMs = now - this.#nowMs();
    });
  }

  async take(place: TermPlace): Promise<boolean> {
    if (this.#isClosed) return false;
    place.isWanted = true;
    this.#places.add(place);
    if (place.version > 0 && !this.#isLapsed) return true;
    try {
      return await this.#inTurn(async () => {
        if (this.#isLapsed) await this.#renew();
        const isOld = this.#nowMs() - place.learnedUs / 1000 >= trustedMs;
        if (isWaiting(place) && isOld) await this.#learn([place]);
        if (place.version === 0 && place.other === null) await this.#try([place]);
        return place.version > 0;
      });
    } catch (error) {
      // The partition in which the term lies fails: whoever had the term goes on in the others.
      if (place.version > 0 && (this.#engine.store.missing?.().length ?? 0) > 0) return true;
      throw error;
    }
  }

  giveBack(place: TermPlace): Promise<void> {
    place.isWanted = false;
    this.#places.delete(place);
    return this.#inTurn(() => this.#delete([place]));
  }

  /** Somebody has rung. Where workers are, the beat answers. */
  rung(): void {
    if (this.readRegistry !== null) return;
    this.#set("look", this.#engine.platform.random() * rungSpreadMs, () => this.#look());
  }

  /** Gives all terms back, and rings: another process takes them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of Object.values(this.#timers)) timer?.cancel();
    await this.#inTurn(() => this.#delete([...this.#places]));
  }

  /** The documents of the registry that tell whether the holders of wanted terms live. */
  get watched(): ReadonlySet<string> {
    return new Set([...this.#waiting()].map(({ other }) => signId(other.holder)));
  }

  /** What a read of the registry has brought. @param asked what was `watched` before the read was sent. */
  seen(docs: readonly Doc[], asked: ReadonlySet<string>): void {
    const signs = new Map(docs.map((doc) => [doc.id, doc]));
    const free: TermPlace[] = [];
    let nextMs = this.#storeAheadMs === null ? lookBlindlyMs : lookEveryMs;
    for (const place of this.#waiting()) {
      const id = signId(place.other.holder);
      const sign = signs.get(id);
      if (sign === undefined && asked.has(id)) free.push(place);
      const endsInMs = (sign?.expiresAt ?? Infinity) - this.#nowMs() - (this.#storeAheadMs ?? -Infinity);
      nextMs = Math.min(nextMs, Math.max(lookLeastMs, endsInMs + behindEndMs));
    }
    if (this.watched.size === 0) this.#timers.look?.cancel();
    else this.#set("look", nextMs, () => this.#look());
    if (free.length > 0) this.#besides(() => this.#try(free, true));
  }

  /** The next renewal of the sign, for who writes to the registry anyway; null where there is none to make. */
  renewal(): DocPut | null {
    const isFresh = this.#nowMs() - this.#signedUs / 1000 < renewLeastMs;
    if (isFresh || this.#isSigning || this.#isClosed || this.isAlone || !this.#isHolder) return null;
    this.#isSigning = true;
    return this.#signPut({ version: this.#signVersion });
  }

  /** @param answer to a `renewal` sent at `sentUs`; null where it was lost. */
  renewed(answer: PutDocAnswer | null, sentUs: number): void {
    this.#isSigning = false;
    if (answer?.kind === "ok") this.#signed(answer.version, sentUs);
    else this.#besides(() => this.#renew());
  }

  /** The store's time now; null before a claim has told it. */
  get storeNow(): number | null {
    return this.#storeAheadMs === null ? null : this.#nowMs() + this.#storeAheadMs;
  }

  get #isHolder(): boolean {
    return [...this.#places].some(({ version }) => version > 0);
  }

  get #isLapsed(): boolean {
    return !this.isAlone && this.#isHolder && this.#nowMs() - this.#signedUs / 1000 >= signMs;
  }

  *#waiting(): Generator<TermPlace & { readonly other: NonNullable<TermPlace["other"]> }> {
    for (const place of this.#places) if (isWaiting(place)) yield place;
  }

  /**
   * Takes terms that are nobody's as far as this process knows. @param isFree their holders are gone: the terms are
   * taken from them.
   */
  async #try(places: readonly TermPlace[], isFree = false): Promise<void> {
    if (this.#isClosed) return;
    let left = places.filter(({ version, isWanted }) => version === 0 && isWanted);
    // In a large fleet another was faster, most often: one read instead of a sign and a put in vain.
    if (isFree) left = await this.#stillFree(left);
    if (left.length === 0) return this.#setLook();
    if (this.#nowMs() - this.#signedUs / 1000 >= renewEveryMs)
      await (this.#isHolder ? this.#renew() : this.#sign("any"));
    for (let tries = 0; left.length > 0 && tries < triesMax; tries++) {
      const puts = left.map((place) =>
        this.#termPut(place, place.other === null ? "absent" : { version: place.other.version }),
      );
      const answers = await this.#call(this.#engine.store.putDocs(puts));
      const refused = left.filter((place, at) => !this.#answered(place, answers[at], isFree));
      if (refused.length > 0) await this.#learn(refused);
      // One that was given back meanwhile is nobody's, and one whose put was taken for lost is ours.
      left = refused.filter(({ other }) => other === null || other.holder === this.#holder);
    }
    this.#setLook();
  }

  /** Those of these terms that nobody has taken since their holder was missed. */
  async #stillFree(places: readonly TermPlace[]): Promise<TermPlace[]> {
    const missed = places.map(({ other }) => other?.holder);
    await this.#learn(places);
    return places.filter(({ other }, at) => other === null || other.holder === missed[at]);
  }

  #answered(place: TermPlace, answer: PutDocAnswer | undefined, isTakeover: boolean): boolean {
    if (answer?.kind !== "ok") return false;
    place.version = answer.version;
    place.other = null;
    if (isTakeover) place.taken?.();
    return true;
  }

  /** Who has these terms. */
  async #learn(places: readonly TermPlace[]): Promise<void> {
    const ids = places.map(({ name }) => name);
    const { docs } = await this.#call(this.#engine.store.readDocs({ kind: termKind, ids }));
    for (const place of places) {
      const doc = docs.find(({ id }) => id === place.name);
      place.other = doc === undefined ? null : { holder: doc.body, version: doc.version };
      place.learnedUs = this.#engine.platform.monotonicUs();
    }
  }

  /** Makes the sign last longer; where it had run out, takes all terms anew. */
  async #renew(): Promise<void> {
    if (!this.#isHolder || this.#isClosed) return;
    this.#setRenew(renewAgainMs);
    if (await this.#sign({ version: this.#signVersion })) return;
    await this.#sign("any");
    const held = [...this.#places].filter(({ version }) => version > 0);
    const puts = held.map((place) => this.#termPut(place, { version: place.version }));
    const answers = await this.#call(this.#engine.store.putDocs(puts));
    const lost = held.filter((place, at) => !this.#answered(place, answers[at], false));
    for (const place of lost) place.version = 0;
    if (lost.length > 0) await this.#learn(lost);
    this.#setLook();
  }

  async #sign(guard: DocGuard): Promise<boolean> {
    const sentUs = this.#engine.platform.monotonicUs();
    // The removal of what has to be absent changes nothing, and is refused with the version of what is there.
    const ask: DocPut = { kind: workerKind, id: webhooksBellId, body: null, guard: "absent" };
    const puts = this.readRegistry === null ? [this.#signPut(guard), ask] : [this.#signPut(guard)];
    const [answer, bell] = await this.#call(this.#engine.store.putDocs(puts));
    if (bell?.kind === "changed") this.#hearHooks(bell.version);
    if (answer?.kind !== "ok") return false;
    this.#signed(answer.version, sentUs);
    return true;
  }

  #signed(version: number, sentUs: number): void {
    this.#signVersion = version;
    this.#signedUs = sentUs;
    this.#setRenew(renewEveryMs);
  }

  async #delete(places: readonly TermPlace[]): Promise<void> {
    const held = places.filter(({ version }) => version > 0);
    const puts: DocPut[] = held.map(({ name, version }) => {
      return { kind: termKind, id: name, body: null, guard: { version } };
    });
    for (const place of places) [place.version, place.other] = [0, null];
    if (held.length > 0 && !this.#isHolder) {
      this.#signedUs = Number.NEGATIVE_INFINITY;
      puts.push(rings({ ...this.#signPut("any"), body: null, expiresInMs: null }));
    }
    if (puts.length > 0) await this.#call(this.#engine.store.putDocs(puts));
  }

  #look(): void {
    if (this.readRegistry !== null) {
      this.#set("look", lookEveryMs, () => this.#look());
      return this.readRegistry();
    }
    this.#besides(async () => {
      const asked = this.watched;
      const ids = [...asked, webhooksBellId];
      const { docs } = await this.#call(this.#engine.store.readDocs({ kind: workerKind, ids }));
      const bell = docs.find(({ id }) => id === webhooksBellId);
      if (bell !== undefined) this.#hearHooks(bell.version);
      this.seen(docs, asked);
    });
  }

  #hearHooks(version: number): void {
    if (version === this.#hooksHeard) return;
    this.#hooksHeard = version;
    for (const told of this.#engine.webhookChanges) told();
  }

  /** Looks as soon as a sign that was not looked at yet may have run out. */
  #setLook(): void {
    if (this.watched.size === 0) this.#timers.look?.cancel();
    else this.#set("look", this.#storeAheadMs === null ? lookBlindlyMs : lookEveryMs, () => this.#look());
  }

  #setRenew(inMs: number): void {
    if (this.isAlone) return;
    this.#set("renew", inMs, () => {
      if (!this.#isSigning) this.#besides(() => this.#renew());
    });
  }

  #set(which: "look" | "renew", inMs: number, run: () => void): void {
    this.#timers[which]?.cancel();
    if (!this.#isClosed) this.#timers[which] = this.#engine.platform.setTimer(inMs, run, false);
  }

  /** What nobody waits for: after a failure it comes again with its timer. */
  #besides(run: () => Promise<void>): void {
    this.#inTurn(run).catch((error: unknown) => {
      this.#engine.log.debug("terms could not be looked after", { error });
      if (!this.#isHolder) this.#setLook();
    });
  }

  /** One at a time: each step goes by what the one before has learned. */
  #inTurn<Answer>(run: () => Promise<Answer>): Promise<Answer> {
    const answer = this.#last.then(run);
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  #call<Answer>(answer: Promise<Answer>): Promise<Answer> {
    return answersWithin(this.#engine.platform, answer, callMaxMs);
  }

  #termPut({ name }: TermPlace, guard: DocGuard): DocPut {
    return { kind: termKind, id: name, body: this.#holder, guard };
  }

  #signPut(guard: DocGuard): DocPut & { readonly expiresInMs: number } {
    return { kind: workerKind, id: signId(this.#holder), body: "", guard, expiresInMs: signMs };
  }

  #nowMs(): number {
    return this.#engine.platform.monotonicUs() / 1000;
  }
}

function isWaiting(
  place: TermPlace,
): place is TermPlace & { readonly other: NonNullable<TermPlace["other"]> } {
  return place.isWanted && place.version === 0 && place.other !== null;
}

function signId(holder: string): string {
  return workerDocId("holder", holder);
}
