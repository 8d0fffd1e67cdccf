/**
 * Submitting: hands units of new jobs to the store. Every unit of this process goes this way:
 *
 *   placed in one partition ─► traced ─► waited for so long ─► its limits made ─► the next call to the store
 *                                                                                  └─► workers here are notified
 *
 * A worker with a free slot claims in the same flush, after the submit, so that both share one commit and the job
 * starts as soon as it is durable. Most units have no trace and no limits: they are placed and go straight to the last
 * step.
 */
import type { Platform } from "../../platform/platform.ts";
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { isBornBlocked } from "../../store/rules/flow/member.ts";
import type { Store } from "../../store/store.ts";
import type { Telemetry } from "../attempts/telemetry.ts";
import { withinLimit } from "../calls/call-limit.ts";
import type { CallOptions } from "../calls/call-limit.ts";
import type { Batching } from "../calls/partition-batcher.ts";
import type { LimitsInUse } from "../limits/limits-in-use.ts";
import { readKvWrites } from "../docs/kv.ts";
import type { Needs } from "../services.ts";
import type { EnqueueOptions } from "./job-options.ts";
import { JobIds } from "./job-ids.ts";

export interface SubmitterNeeds {
  readonly platform: Platform;
  readonly ids: JobIds;
  readonly limits: LimitsInUse;
  readonly submits: Batching<SubmitUnit, SubmitAnswer>;
  /** Null for none. */
  readonly telemetry: Telemetry | null;
}

export class Submitter {
  readonly #needs: SubmitterNeeds;
  readonly #listeners = new Set<(job: NewJob) => void>();

  constructor(needs: SubmitterNeeds) {
    this.#needs = needs;
  }

  submit(unit: SubmitUnit, limit?: CallOptions): Promise<SubmitAnswer> {
    const { ids, telemetry, platform } = this.#needs;
    const placed = ids.placed(unit);
    if (limit === undefined)
      return telemetry === null ? this.#send(placed) : telemetry.submit(placed, this.#send);
    const sendWithin = (traced: SubmitUnit): Promise<SubmitAnswer> =>
      withinLimit(limit, {
        ...{ platform, what: "enqueue", isWrite: true, ids: JobIds.named(placed) },
        run: () => this.#send(traced),
      });
    return telemetry === null ? sendWithin(placed) : telemetry.submit(placed, sendWithin);
  }

  /** Submits a unit in the caller's own transaction, at once and by itself. */
  async submitIn(transaction: Pick<Store, "submit">, unit: SubmitUnit): Promise<SubmitAnswer> {
    const { limits, telemetry } = this.#needs;
    await limits.mustBeThere(unit.jobs);
    const send = async (traced: SubmitUnit): Promise<SubmitAnswer> => {
      const [answer] = await transaction.submit([traced]);
      return answer as SubmitAnswer;
    };
    return telemetry === null ? send(unit) : telemetry.submit(unit, send);
  }

  /**
   * Calls the listener with the first job of every unit that is on its way to the store, or the first node of a flow
   * that waits for no other. @returns a function that ends it.
   */
  whenSubmitted(listener: (job: NewJob) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** A job must not run before the store knows the limits that it uses. */
  readonly #send = (unit: SubmitUnit): Promise<SubmitAnswer> => {
    const { limits, submits } = this.#needs;
    const making = limits.whenMade(unit.jobs);
    if (making !== null) return making.then(() => this.#send(unit));
    const answer = submits.add(unit);
    const first = this.#listeners.size === 0 ? undefined : unit.jobs.find((job) => !isBornBlocked(job));
    if (first !== undefined) for (const listener of this.#listeners) listener(first);
    return answer;
  };
}

/**
 * A job that is submitted alone, often as one of a thousand that are under way at once. A class with a copied list,
 * for the reason given at `BuiltJob` (job-planner.ts): a list that V8 gave to its old generation would keep the job of
 * every enqueue from the cheap collections, which cost 1,000 callers a fifth of their CPU (0018).
 */
export class LoneUnit implements SubmitUnit {
  readonly jobs: readonly NewJob[];

  constructor(job: NewJob) {
    this.jobs = [job].slice();
  }
}

/**
 * What is submitted in one step: the jobs, with the KV writes that their options name. A repeat answers the jobs that
 * an earlier try has made as existing.
 */
export function unitOf(
  { coder }: Needs<"coder">,
  jobs: readonly NewJob[],
  submissions: readonly { readonly options?: Pick<EnqueueOptions, "kv" | "repeatOf"> | undefined }[],
): SubmitUnit {
  const isRepeat = submissions.some(({ options }) => options?.repeatOf !== undefined);
  const writes = submissions.flatMap(({ options }) => (options?.kv === undefined ? [] : [options.kv]));
  return {
    jobs,
    ...(isRepeat ? { isRepeat } : {}),
    ...(writes.length === 0 ? {} : { docs: readKvWrites(coder, writes, "enqueue") }),
  };
}
