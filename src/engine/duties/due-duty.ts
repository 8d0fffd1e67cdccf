/**
 * The common form of all duties that serve a clock. They read a batch of jobs whose clock is due, let the model decide
 * about each, and write the decisions under the guard that the clock is still due. After a full batch the next pass
 * continues after its cursor, so jobs that cannot be served do not block later ones.
 */
import type { DecidedPolicy } from "../../model/job/job-policy.ts";
import type { JobState } from "../../model/job/job-state.ts";
import type { Change, ChangeCase, Clock } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { endCase } from "../durable/end-case.ts";
import { applyChanges } from "./apply-changes.ts";
import type { Duty, DutyPass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { noteEnd } from "../attempts/note-end.ts";
import type { NoteEndNeeds } from "../attempts/note-end.ts";
import { passedOver } from "./passed-over.ts";
import { Quarantine } from "./quarantine.ts";

/** A due job with its policy, and that of its queue. */
export interface DecidedJob extends Omit<DueJob, "policy"> {
  readonly policy: DecidedPolicy;
}

export type DueDutyNeeds = Needs<
  "store" | "platform" | "log" | "ids" | "changes" | "queuePolicies" | "policies" | "strideMs"
> &
  NoteEndNeeds;

interface DueDutyOptions {
  readonly tuning: Tuning;
  readonly name: string;
  readonly clock: Clock;
  /** Called for each job whose change was applied, with its new state. */
  readonly applied?: (job: DueJob, state: JobState) => void;
  /** @returns the change for one job, or null to leave the job for now. */
  readonly decide: (job: DecidedJob, now: number) => ChangeCase | null;
}

export function dueDuty(needs: DueDutyNeeds, options: DueDutyOptions): Duty {
  const { name, tuning, clock } = options;
  const quarantine = new Quarantine(needs.platform, (id) => needs.ids.placement?.ofId(id) ?? null);
  let cursor: string | null = null;
  return {
    name,
    wakes: "alarm",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(): Promise<DutyPass> {
      const due = await needs.store.readDue({ clock, max: tuning.batchMax, cursor });
      cursor = due.cursor;
      // The decision depends on the policies that operators have set for the queues of these jobs.
      if (due.jobs.length > 0) await needs.queuePolicies.learnOfRoutes(due.jobs.map(({ route }) => route));
      const changes: Change[] = [];
      let undecided = 0;
      for (const job of due.jobs) {
        if (quarantine.has(job.id)) continue;
        try {
          const policy = policyOfDue(needs, job);
          const decided = options.decide({ ...job, policy }, due.now);
          if (decided === null) continue;
          const run = { policy, durable: job.durable };
          changes.push({ id: job.id, cases: [endCase(run, needs.strideMs, decided)] });
        } catch (error) {
          undecided += 1;
          quarantine.failed(job.id, error);
          needs.log.error(`duty ${name}: a job could not be decided`, { id: job.id, error });
        }
      }
      const byId = new Map(due.jobs.map((job) => [job.id, job]));
      const nexts = new Map(changes.map(({ id, cases }) => [id, cases[0]?.next]));
      const emit = (id: string, state: JobState): void => {
        const job = byId.get(id) as DueJob;
        options.applied?.(job, state);
        const [next, title] = [nexts.get(id), needs.queuePolicies.titleAt(job.route)];
        if (next === undefined || title === undefined || needs.policies.read(job.policy).isPermit) return;
        noteEnd(needs, { id, ...title, attempt: job.attempt }, next);
      };
      const { applied, appliedIn, errors, outcomes } = await applyChanges(needs, changes, {
        name,
        quarantine,
        applied: emit,
      });
      return {
        processed: applied,
        ...(appliedIn === undefined ? {} : { processedIn: appliedIn }),
        ...passedOver(needs, errors + undecided),
        outcomes,
        hasMore: due.cursor !== null,
        nextInMs: due.nextInMs,
      };
    },
  };
}

function policyOfDue(needs: Needs<"queuePolicies" | "policies">, { policy, route }: DueJob): DecidedPolicy {
  return needs.policies.read(policy, needs.queuePolicies.queueAt(route));
}
