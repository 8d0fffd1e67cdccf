/**
 * The leader lease: one process of a store, the leader, does the duties that run once per store. A document names the
 * leader. It is written only when the leader changes, so its version fences the leader's writes. The leader is alive as
 * long as its registration (registration.ts), which its heartbeat renews.
 *
 *   no leader ──put if absent──► leader ──stops: deletes the document──► no leader
 *                                  │ its registration has expired
 *                                  ▼
 *                        a candidate takes over, under the version that it has read
 *
 * Every candidate reads the document and the leader's registration with its heartbeat. So a killed leader is replaced
 * within 5 s, and a stopped one within 1.2 s. A process is a candidate only if all these duties are switched on in it:
 * as a leader it would otherwise leave some of them undone.
 *
 * Always true: a process takes the lease only while its own registration is valid. A leader whose registration had
 * expired takes the lease again, under its version, before it goes on, and so learns whether it has lost the lease.
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
  /** Set by the supervisor of the duties. */
  isCandidate = false;
  /** No other process can ever use the store, so this one leads without a lease. */
  isAlone = false;
  readonly #around: Surroundings;
  readonly #process: string;
  readonly #gained = new Set<() => void>();
  /** The version of the document while this process leads, else 0. */
  #version = 0;
  /** The process that leads instead, as far as this one knows. */
  #other: string | null = null;
  /** Monotonic: how long the own registration is valid at least. */
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
    // While the partition of the registry is away, no process can take over, so the leader goes on in the other
    // partitions.
    return this.#isAlive ? !this.#mustConfirm : (this.#around.store.missing?.().length ?? 0) > 0;
  }

  /** @param gained called when this process becomes the leader. @returns a function that ends this. */
  whenGained(gained: () => void): () => void {
    this.#gained.add(gained);
    return () => void this.#gained.delete(gained);
  }

  /**
   * A check that holds only as long as this process leads. In the same unit as a write, it refuses the write of a
   * process that has lost the lease without knowing it. Null if this process does not lead.
   */
  check(): DocCheck | null {
    return this.#version === 0 ? null : { kind: registryKind, id: leaderId, version: this.#version };
  }

  /** The documents that a heartbeat must read for the lease. */
  get watched(): readonly string[] {
    return this.#other === null ? [leaderId] : [leaderId, processDocId(this.#other)];
  }

  /** The own registration was written: it is valid for `ttlMs` from when the call was sent. */
  renewed(sentUs: number, ttlMs: number): void {
    if (this.#version > 0 && !this.#isAlive) this.#mustConfirm = true;
    this.#aliveUntilUs = sentUs + ttlMs * 1000;
  }

  /**
   * Called with the documents that a heartbeat has read. @param wasRead whether a document was asked for, also if it is
   * not among them.
   */
  async seen(docs: ReadonlyMap<string, Doc>, wasRead: (id: string) => boolean): Promise<void> {
    const doc = docs.get(leaderId);
    if (doc?.body === this.#process) {
      // The version differs because the answer to the put was lost.
      if (this.#mustConfirm) await this.#take({ version: doc.version });
      else if (doc.version !== this.#version) this.#lead(doc.version);
      return;
    }
    [this.#version, this.#mustConfirm] = [0, false];
    this.#other = doc?.body ?? null;
    if (!this.isCandidate || !this.#isAlive) return;
    if (doc === undefined) return this.#take("absent");
    const registration = processDocId(doc.body);
    if (!docs.has(registration) && wasRead(registration)) await this.#take({ version: doc.version });
  }

  /** Gives the lease back. @returns the documents to write for that. */
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
