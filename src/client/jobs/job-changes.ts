/**
 * Changes one or many jobs from outside. Each change is written under a guard, so a job that has moved on is not
 * overwritten. Many jobs are read page by page: each page is changed in one batch before the next one is read, and no
 * page is begun after the caller has given up.
 */
import { operatorCases } from "../../engine/durable/end-case.ts";
import type { Needs } from "../../engine/services.ts";
import type { Store } from "../../store/store.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { OperatorChange } from "../../model/job/operate.ts";
import { isHiddenQueue, withoutHidden } from "../../model/routing/hidden-queue.ts";
import type { ChangeAnswer } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
import { isFlow } from "../flows/flow-jobs.ts";
import { readFilter } from "./job-filter.ts";
import type { JobQuery } from "./job-filter.ts";

type JobChangesNeeds = Needs<"store" | "ids" | "retention" | "changes" | "reads" | "queuePolicies">;

export const scanMax = 10_000;
export const pageMax = 500;
const triesMax = 5;

export class JobChanges {
  readonly #needs: JobChangesNeeds;

  constructor(needs: JobChangesNeeds) {
    this.#needs = needs;
  }

  async read(id: string): Promise<JobRecord | null> {
    const record = await this.#needs.reads.add(id);
    if (record !== null) await this.#knowQueues([record]);
    return record;
  }

  /**
   * If the store keeps nothing of some outcome, the policy of the job's queue may still keep it, so it is read first.
   */
  async #knowQueues(records: readonly JobRecord[]): Promise<void> {
    const { retention, queuePolicies } = this.#needs;
    if (!Object.values(retention.known ?? {}).includes(0)) return;
    await queuePolicies.learn(records.map(({ queue }) => queue));
  }

  async mustRead(id: string): Promise<JobRecord> {
    const record = await this.read(id);
    if (record === null) throw new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
    if (isFlow(record))
      throw new MillraceError("job-not-found", `${JSON.stringify(id)} is a flow, not a job.`);
    return record;
  }

  change(id: string, changes: readonly OperatorChange[]): Promise<ChangeAnswer> {
    return this.#needs.changes.add({ id, cases: operatorCases(changes) });
  }

  /**
   * Makes a change that repeats parts of the record, guarded by the rev at which the record was read. If the job has
   * moved on, it is read again and the change is computed again. All tries carry one token, so a change whose reply was
   * lost is not made twice.
   */
  async changeAsRead(
    first: JobRecord,
    make: (record: JobRecord) => readonly OperatorChange[],
  ): Promise<ChangeAnswer> {
    const token = this.#needs.ids.mint();
    let record: JobRecord | null = first;
    for (let tries = 1; record !== null; tries++) {
      const { id, rev }: JobRecord = record;
      const changes = make(record);
      if (changes.length === 0) return { kind: "changed", state: record.state, rev };
      const answer = await this.#needs.changes.add({ id, token, cases: operatorCases(changes, rev) });
      const isAgain =
        answer.kind === "changed" && changes.some(({ states }) => states.includes(answer.state));
      if (!isAgain || tries === triesMax) return answer;
      record = await this.read(id);
    }
    return { kind: "gone" };
  }

  /** @param hasFlows also flows and their parts, which are jobs of a hidden queue. */
  async *pages(query: JobQuery, hasFlows = false): AsyncGenerator<readonly JobRecord[], void, undefined> {
    const filter = readFilter(query);
    let cursor: string | null = null;
    let missing: readonly number[] | undefined;
    do {
      const page: Awaited<ReturnType<Store["findJobs"]>> = await this.#needs.store.findJobs({
        filter,
        max: pageMax,
        scanMax,
        cursor,
      });
      yield hasFlows
        ? page.jobs.filter((job) => isFlow(job) || !isHiddenQueue(job.queue))
        : withoutHidden(page.jobs);
      cursor = page.cursor;
      missing = page.missing;
    } while (cursor !== null);
    if (missing !== undefined)
      throw new MillraceError(
        "store-unavailable",
        `Partition ${missing.join(", ")} of the store fails: its jobs were left out, those of the other partitions were not.`,
        { outcome: "unknown" },
      );
  }

  /**
   * Acts on all jobs that match; an answer of null is not counted. Calls `pageEnded` after each page with the counts so
   * far. @returns how often each answer occurred. The first error is thrown after its page has ended, and says so if
   * jobs were changed.
   */
  async each<Answer extends string>(
    query: JobQuery,
    answers: readonly Answer[],
    act: (record: JobRecord) => Promise<Answer | null>,
    isOver: () => boolean,
    {
      hasFlows = false,
      pageEnded,
    }: {
      readonly hasFlows?: boolean;
      readonly pageEnded?: (soFar: Readonly<Record<Answer, number>>) => Promise<void>;
    } = {},
  ): Promise<Readonly<Record<Answer, number>>> {
    const counts = Object.fromEntries(answers.map((answer) => [answer, 0])) as Record<Answer, number>;
    let acted = 0;
    try {
      for await (const page of this.pages(query, hasFlows)) {
        if (isOver()) break;
        await this.#knowQueues(page);
        const outcomes = await Promise.allSettled(page.map(act));
        acted += outcomes.filter(({ status }) => status === "fulfilled").length;
        for (const outcome of outcomes) {
          if (outcome.status === "rejected") throw outcome.reason;
          if (outcome.value !== null) counts[outcome.value] += 1;
        }
        await pageEnded?.({ ...counts });
      }
    } catch (error) {
      throw acted > 0 ? afterOthers(error, acted) : error;
    }
    return counts;
  }
}

/** An error after some jobs were changed must not claim that the call did not happen. */
function afterOthers(error: unknown, acted: number): unknown {
  if (!isMillraceError(error)) return error;
  const text = `The call had acted on ${acted} jobs, and then failed: ${error.message}`;
  return new MillraceError(error.code, text, { cause: error, outcome: "unknown" });
}

/** Whether the change was made, by this try or by an earlier one whose reply was lost. */
export function isMade(
  answer: ChangeAnswer,
): answer is Extract<ChangeAnswer, { readonly kind: "ok" | "already" }> {
  return answer.kind === "ok" || answer.kind === "already";
}

/** Throws the error for an answer other than ok. */
export function refuse(answer: ChangeAnswer, id: string): void {
  switch (answer.kind) {
    case "ok":
    case "already":
    case "repeated":
      return;
    case "gone":
      throw new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
    case "key-held":
      throw new MillraceError(
        "key-held",
        `The unique key of ${JSON.stringify(id)} is held by ${JSON.stringify(answer.by)}.`,
      );
    case "changed":
    case "full":
      throw new MillraceError(
        "job-changed",
        `The job ${JSON.stringify(id)} is ${answer.state}${isTerminal(answer.state) ? " already" : ""}; this is not possible then.`,
      );
  }
}
