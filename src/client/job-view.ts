/** A job as people see it: decoded, with the fields its definition redacts left out. */
import { redact } from "../codec/redact.ts";
import type { Engine } from "../engine/engine.ts";
import { readAttemptLog } from "../model/attempt-log.ts";
import type { AttemptRecord } from "../model/attempt-log.ts";
import { readMeta } from "../model/job-meta.ts";
import type { JobState } from "../model/job-state.ts";
import type { JobRecord } from "../store/records.ts";

/** An attempt that did not complete. */
export interface AttemptView extends Omit<AttemptRecord, "at"> {
  /** When the attempt ended. */
  readonly at: Date;
}

export interface JobView {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: JobState;
  /** Why the job ended, for one that did not complete. */
  readonly reason: string | null;
  readonly attempt: number;
  readonly attemptsMax: number;
  readonly input: unknown;
  readonly result: unknown;
  readonly progress: unknown;
  readonly tags: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly failures: readonly AttemptView[];
  readonly cancelAsked: boolean;
  /** Why the cancel of the running job was asked for. */
  readonly cancelReason: string | null;
  readonly uniqueKey: string | null;
  readonly worker: string | null;
  readonly createdAt: Date;
  readonly dueAt: Date;
  readonly claimedAt: Date | null;
  readonly startedAt: Date | null;
  readonly endedAt: Date | null;
  readonly deadlineAt: Date | null;
  readonly leaseEndsAt: Date | null;
}

export function viewJob(engine: Engine, record: JobRecord): JobView {
  const policy = engine.readPolicy(record.policy);
  const { entries, cancelReason } = readAttemptLog(record.attempts);
  const show = (payload: string | null): unknown =>
    payload === null ? undefined : redact(decode(engine, payload), policy.redact);
  return {
    id: record.id,
    name: record.name,
    queue: record.queue,
    state: record.state,
    reason: record.reason,
    attempt: record.attempt,
    attemptsMax: policy.attempts,
    input: show(record.input),
    result: show(record.result),
    progress: show(record.progress),
    tags: record.tags ?? [],
    headers: readMeta(record.meta).headers ?? {},
    failures: entries.map((entry) => ({ ...entry, at: new Date(entry.at) })),
    cancelAsked: record.cancelAsked,
    cancelReason: record.cancelAsked ? (cancelReason ?? null) : null,
    uniqueKey: record.uniqueKey,
    worker: record.owner,
    createdAt: new Date(record.createdAt),
    dueAt: new Date(record.dueAt),
    claimedAt: dateOf(record.claimedAt),
    startedAt: dateOf(record.startedAt),
    endedAt: dateOf(record.endedAt),
    deadlineAt: dateOf(record.deadlineAt),
    leaseEndsAt: dateOf(record.leaseEndsAt),
  };
}

/** A list must not fail because one payload in it cannot be read (another key ring, another codec). */
function decode(engine: Engine, payload: string): unknown {
  try {
    return engine.settings.coder.decode(payload);
  } catch {
    return "[unreadable]";
  }
}

function dateOf(at: number | null): Date | null {
  return at === null ? null : new Date(at);
}
