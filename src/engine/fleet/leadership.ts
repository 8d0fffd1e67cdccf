/**
 * The leader lease: the one process of a store that does the duties that run once per store. A document names the
 * leader and is written only when the leadership changes, so that its version fences the leader's writes. The leader
 * is alive as long as its registration is (registration.ts), which its heartbeat renews.
 *
 *   nobody ──put if absent──► leader ──stops: deletes the document──► nobody
 *                               │ its registration has expired
 *                               ▼
 *                     a candidate takes over, under the version that it has read
 *
 * Every candidate reads the document and the leader's registration with its heartbeat. So a leader that was killed is
 * replaced within 5 s, and one that stops within 1.2 s. Only a process in which all these duties are switched on is a
 * candidate: another leader would leave some of them undone.
 *
 * Always true: a process takes the lease only while its own registration is valid. A leader whose registration had
 * expired takes the lease again, under its version, before it goes on. So it learns whether it has lost the lease.
 */
import type { Platform } from "../../platform/platform.ts";
import type { Doc, DocCheck, DocGuard, DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { processDocId, registryKind, registryPrefix } from "./registration.ts";

export const leaderId = `${registryPrefix}leader`;

interface Surroundings {
  readonly store: Pick<Store, "putDocs" | "missing">;
  readonly platform: Platform;
}

export class Leadership {
  /** Set by the duties of the process. */
  isCandidate = false;
  /** No other process can ever use the store: this one leads without a lease. */
  isAlone = false;
  readonly #around: Surroundings;
  readonly #process: string;
  readonly #gained = new Set<() => void>();
  /** Of the document while this process leads, else 0. */
  #version = 0;
  /** Who leads instead, as far as this process knows. */
  #other: string | null = null;
  /** Monotonic: until when the own registration is valid at least. */
  #aliveUntilUs = 0;
  /** The own registration had expired while this process led. */
  #mustConfirm = false;

  constructor(around: Surroundings, process: string) {
    this.#around = around;
    this.#process = process;
  }

  get isLeader(): boolean {
    if (this.isAlone) return true;
    if (this.#version === 0) return false;
    // While the partition of the registry is away nobody can take over: the leader goes on in the others.
    return this.#isAlive ? !this.#mustConfirm : (this.#around.store.missing?.().length ?? 0) > 0;
  }

  /** @param gained called when this process becomes the leader. @returns a function that ends this. */
  whenGained(gained: () => void): () => void {
    this.#gained.add(gained);
    return () => void this.#gained.delete(gained);
  }

  /**
   * Holds only as long as this process leads. In the same unit as a write, it refuses the write of a process that has
   * lost the lease without knowing it. Null for a process that does not lead.
   */
  check(): DocCheck | null {
    return this.#version === 0 ? null : { kind: registryKind, id: leaderId, version: this.#version };
  }

  /** The documents that a heartbeat reads for this. */
  get watched(): readonly string[] {
    return this.#other === null ? [leaderId] : [leaderId, processDocId(this.#other)];
  }

  /** The own registration was written by a call that was sent then, for so long. */
  renewed(sentUs: number, ttlMs: number): void {
    if (this.#version > 0 && !this.#isAlive) this.#mustConfirm = true;
    this.#aliveUntilUs = sentUs + ttlMs * 1000;
  }

  /** What a heartbeat has read. @param wasRead whether a document that is not among them was asked for. */
  async seen(docs: ReadonlyMap<string, Doc>, wasRead: (id: string) => boolean): Promise<void> {
    const doc = docs.get(leaderId);
    if (doc?.body === this.#process) {
      // Another version: the answer to the put was lost.
      if (this.#mustConfirm) await this.#take({ version: doc.version });
      else if (doc.version !== this.#version) this.#lead(doc.version);
      return;
    }
    [this.#version, this.#mustConfirm] = [0, false];
    this.#other = doc?.body ?? null;
    if (!this.isCandidate || !this.#isAlive) return;
    if (doc === undefined) return this.#take("absent");
    const sign = processDocId(doc.body);
    if (!docs.has(sign) && wasRead(sign)) await this.#take({ version: doc.version });
  }

  /** Gives the lease back; what has to be written for it. */
  leave(): readonly DocPut[] {
    this.isCandidate = false;
    const version = this.#version;
    this.#version = 0;
    return version === 0 ? [] : [{ kind: registryKind, id: leaderId, body: null, guard: { version } }];
  }

  get #isAlive(): boolean {
    return this.#around.platform.monotonicUs() < this.#aliveUntilUs;
  }

  async #take(guard: DocGuard): Promise<void> {
    const put: DocPut = { kind: registryKind, id: leaderId, body: this.#process, guard };
    const [answer] = await this.#around.store.putDocs([put]);
    this.#mustConfirm = false;
    if (answer?.kind === "ok") this.#lead(answer.version);
    else this.#version = 0;
  }

  #lead(version: number): void {
    this.#version = version;
    this.#other = null;
    for (const gained of this.#gained) gained();
  }
}
