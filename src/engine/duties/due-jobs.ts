/**
 * The way all duties that answer a clock work: read a batch of jobs whose clock has rung, let the model decide each, write the
 * decisions under the guard that the clock still has rung. A batch that is full goes on behind its cursor, so nothing starves
 * behind items that cannot be served.
 */
import type { JobState } from "../../model/job-state.ts";
import type { Change, ChangeCase, Clock } from "../../store/operations.ts";
import type { DueJob } from "../../store/records.ts";
import type { Engine } from "../engine.ts";
import type { Duty, DutyRun } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { Quarantine } from "./quarantine.ts";

export interface DueDutyOptions {
  readonly tuning: Tuning;
  readonly name: string;
  readonly clock: Clock;
  /** Told of a change that was applied. */
  readonly applied?: (job: DueJob, state: JobState) => void;
  /** The change for one job, or null to leave it for now. */
  readonly decide: (job: DueJob, now: number) => ChangeCase | null;
}

export function dueDuty(engine: Engine, options: DueDutyOptions): Duty & { readonly quarantine: Quarantine } {
  const quarantine = new Quarantine(engine.platform);
  let cursor: string | null = null;
  return {
    name: options.name,
    wakes: "alarm",
    sleepMaxMs: options.tuning.sleepMaxMs,
    quarantine,
    async run(): Promise<DutyRun> {
      const due = await engine.store.readDue({ clock: options.clock, max: options.tuning.batchMax, cursor });
      cursor = due.cursor;
      const outcomes: Record<string, number> = {};
      const changes: Change[] = [];
      let errors = 0;
      for (const job of due.jobs) {
        if (quarantine.has(job.id)) continue;
        try {
          const decided = options.decide(job, due.now);
          if (decided !== null) changes.push({ id: job.id, cases: [decided] });
        } catch (error) {
          errors += 1;
          quarantine.failed(job.id);
          engine.log.error(`duty ${options.name}: a job could not be decided`, { id: job.id, error });
        }
      }
      const byId = new Map(due.jobs.map((job) => [job.id, job]));
      const tell = (id: string, state: JobState): void => options.applied?.(byId.get(id) as DueJob, state);
      const processed = await applyChanges(engine, changes, {
        name: options.name,
        quarantine,
        outcomes,
        tell,
      });
      errors += changes.length - processed.answered;
      return {
        processed: processed.applied,
        errors,
        outcomes,
        hasMore: due.cursor !== null,
        nextInMs: due.nextInMs,
      };
    },
  };
}

async function applyChanges(
  engine: Engine,
  changes: readonly Change[],
  into: {
    readonly name: string;
    readonly quarantine: Quarantine;
    readonly outcomes: Record<string, number>;
    readonly tell: (id: string, state: JobState) => void;
  },
): Promise<{ applied: number; answered: number }> {
  let applied = 0;
  let answered = 0;
  // Through the batcher: one bad change is found by halves and fails alone.
  const answers = await Promise.allSettled(changes.map((change) => engine.changes.add(change)));
  for (const [index, answer] of answers.entries()) {
    const id = (changes[index] as Change).id;
    if (answer.status === "rejected") {
      into.quarantine.failed(id);
      engine.log.error(`duty ${into.name}: a change failed`, { id, error: answer.reason as unknown });
      continue;
    }
    answered += 1;
    into.quarantine.succeeded(id);
    // Losing the race is fine: the worker settled, or another process did this first.
    const outcome = answer.value.kind === "ok" ? (answer.value.state ?? "removed") : answer.value.kind;
    into.outcomes[outcome] = (into.outcomes[outcome] ?? 0) + 1;
    if (answer.value.kind !== "ok") continue;
    applied += 1;
    if (answer.value.state !== null) into.tell(id, answer.value.state);
  }
  return { applied, answered };
}
