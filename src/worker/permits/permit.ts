/**
 * A permit that code holds: a part of a limit, until it is released, its process ends, or its lease is lost because the
 * process stood still for longer than the lease. `signal` fires if the lease is lost.
 *
 *   held ──release()──► released          held ──lease lost, Millrace closed──► ended: the signal has fired
 */
import type { Needs } from "../../engine/services.ts";
import { settlesWithin } from "../../engine/calls/settles-within.ts";
import { MillraceError } from "../../model/error.ts";
import type { JobContext } from "../run/job-context.ts";

type HeldPermitNeeds = Needs<"platform" | "giveUpMs" | "limits">;

export interface Permit extends AsyncDisposable, Disposable {
  /** The name of the limit. */
  readonly limit: string;
  /** The key of the limit that the permit was taken from; null for none. */
  readonly key: string | null;
  readonly weight: number;
  /** Fires if the permit ends before it is released: with `lease-lost`, or `closed`. */
  readonly signal: AbortSignal;
  /** Gives the permit back, once. Never rejects: a permit that cannot be given back ends with its lease. */
  release(): Promise<void>;
}

export class HeldPermit implements Permit {
  readonly limit: string;
  readonly key: string | null;
  readonly weight: number;
  readonly #needs: HeldPermitNeeds;
  readonly #controller = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  readonly #settled = Promise.withResolvers<void>();
  #releasing: Promise<void> | null = null;

  constructor(needs: HeldPermitNeeds, { limit, key, weight }: Pick<Permit, "limit" | "key" | "weight">) {
    this.#needs = needs;
    this.limit = limit;
    this.key = key;
    this.weight = weight;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** What the handler of its permit job does: until it returns, the lease is renewed. */
  async holdFor({ signal }: Pick<JobContext, "signal">): Promise<void> {
    signal.addEventListener("abort", () => this.#end((signal.reason as { reason?: unknown }).reason), {
      once: true,
    });
    await this.#ended.promise;
  }

  /** The end of the permit job is settled. */
  settled(): void {
    this.#settled.resolve();
  }

  release(): Promise<void> {
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  [Symbol.dispose](): void {
    void this.release();
  }

  async #release(): Promise<void> {
    this.#needs.limits.ending([[this.limit]], this.#needs.platform);
    this.#ended.resolve();
    if (this.signal.aborted) return;
    const { platform, giveUpMs } = this.#needs;
    // If the store is unreachable, it gets the end later. The caller holds nothing any more and need not wait for that.
    await settlesWithin(platform, this.#settled.promise, giveUpMs);
  }

  #end(reason: unknown): void {
    this.#ended.resolve();
    this.#settled.resolve();
    if (this.#releasing !== null) return;
    const what = `The permit of the limit ${JSON.stringify(this.limit)}`;
    this.#controller.abort(
      reason === "shutdown"
        ? new MillraceError("closed", `${what} ended: its Millrace was closed.`)
        : new MillraceError("lease-lost", `${what} was lost: its lease was not renewed in time.`),
    );
  }
}
