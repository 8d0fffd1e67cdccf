/** A job as people see it: decoded, without the fields that its definition redacts. */
import { openTexts } from "../../codec/sealed-texts.ts";
import type { KeptTexts, Texts } from "../../codec/sealed-texts.ts";
import { redact } from "../../codec/redact.ts";
import type { Needs } from "../../engine/services.ts";
import { isFailure, readAttemptLog } from "../../model/job/attempt-log.ts";
import type { AttemptRecord, Spent } from "../../model/job/attempt-log.ts";
import { isMemberTag, pathOfId, rootOf } from "../../model/flow/flow-meta.ts";
import type { FlowPlace } from "../../model/flow/flow-meta.ts";
import { readMeta, viewMadeBy } from "../../model/job/job-meta.ts";
import type { PublishedTo } from "../../model/job/job-meta.ts";
import type { DecidedPolicy } from "../../model/job/job-policy.ts";
import { groupOfLane } from "../../model/routing/lane.ts";
import { keyOfScoped } from "../../model/job/unique-key.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import type { JobRecord } from "../../store/records.ts";
import { readHeld } from "../explain/held-view.ts";
import type { Held } from "../explain/held-view.ts";

export interface AttemptView extends Omit<AttemptRecord, "at" | "waitedUs" | "ranUs"> {
  /** When the attempt ended. */
  readonly at: Date;
  /** From the time the job was due to the start of its handler, such as 0.4; absent after its lease expired. */
  readonly waitedMs?: number;
  /** Handler time, such as 0.4; absent if it could not be measured because the lease expired. */
  readonly ranMs?: number;
}

/** Redacted fields show "[redacted]", whatever their type says. */
export interface JobView<Input = unknown, Result = unknown> {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  /** The capabilities that a worker must offer to run it. */
  readonly requires: readonly string[];
  readonly state: JobState;
  /** The key of its group; null for none. */
  readonly group: string | null;
  /** What holds a ready job back: a limit, its group, the pause of its queue, a missing capability; else null. */
  readonly held: Held | null;
  /** Why the job ended; null if it completed or has not ended. */
  readonly reason: string | null;
  readonly attempt: number;
  readonly attemptsMax: number;
  readonly input: Input;
  /** Undefined if there is none yet. */
  readonly result: Result | undefined;
  readonly progress: unknown;
  readonly tags: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  /** The trace context that is stored with it, such as `traceparent`. */
  readonly trace: Readonly<Record<string, string>>;
  /** The schedule that made it, and the tick; null for a job that no schedule made. */
  readonly schedule: { readonly name: string; readonly tick: Date | null } | null;
  /** The topic and the subscription that it was made for; null for a job of no topic. */
  readonly topic: PublishedTo | null;
  /**
   * The flow that it is a member of, and the path of its node; null for none. A member is kept and pruned with its
   * flow.
   */
  readonly flow: FlowPlace | null;
  /** What it was woken with last (`runNow`); undefined for nothing. */
  readonly attached: unknown;
  /**
   * The attempts so far, oldest first, with how long each waited and ran. Of a long list, those in the middle are
   * dropped. Snoozes, and throttles of one limit, that follow one another are one entry with their `count`.
   */
  readonly attempts: readonly AttemptView[];
  /** The attempts that did not complete, without those that were snoozed or throttled. */
  readonly failures: readonly AttemptView[];
  /** How many attempts of this round ended because a limit was throttled. Such attempts are given back. */
  readonly throttles: number;
  /** What its attempts have used of budgets, by name. Of an attempt whose process died, nothing is in this list. */
  readonly spent: Spent;
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

/** The views of jobs, with what holds each of them back. */
export async function viewJobs(
  needs: Needs<"store" | "coder" | "queuePolicies" | "policies">,
  records: readonly JobRecord[],
): Promise<readonly JobView[]> {
  const live = records.filter(({ state }) => !isTerminal(state));
  const [held] = await Promise.all([
    readHeld(needs, records),
    needs.queuePolicies.learn(live.map(({ queue }) => queue)),
  ]);
  return records.map((record, at) => ({ ...viewRecord(needs, record), held: held[at] ?? null }));
}

/** The part of a view that the record alone gives. */
export function viewRecord(needs: Needs<"coder" | "policies">, record: JobRecord): Omit<JobView, "held"> {
  const policy = needs.policies.read(record.policy, record.queue);
  const { entries, cancelReason, throttled, spent = {} } = readAttemptLog(record.attempts);
  const attempts = entries.map((entry) => viewAttempt(entry, record));
  const show = (payload: string | null = null): unknown =>
    payload === null ? undefined : shown(needs, payload, policy);
  return {
    id: record.id,
    name: record.name,
    queue: record.queue,
    requires: record.requires ?? [],
    group: groupOfLane(record.laneKey),
    state: record.state,
    reason: record.reason,
    attempt: record.attempt,
    attemptsMax: policy.attempts,
    input: show(record.input),
    result: show(record.result),
    progress: show(record.progress),
    tags: viewTags(record),
    headers: shownTexts(needs, readMeta(record.meta).headers),
    trace: readMeta(record.meta).trace ?? {},
    schedule: viewMadeBy(readMeta(record.meta).schedule),
    topic: readMeta(record.meta).topic ?? null,
    flow: record.flow === null ? null : { id: rootOf(record.id) ?? record.flow, node: pathOfId(record.id) },
    attached: show(readMeta(record.meta).attached),
    attempts,
    failures: attempts.filter(isFailure),
    throttles: throttled?.count ?? 0,
    spent,
    cancelAsked: record.cancelAsked,
    cancelReason: record.cancelAsked ? (cancelReason ?? null) : null,
    uniqueKey: record.uniqueKey === null ? null : keyOfScoped(record.uniqueKey),
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

/** The tags that the application gave. On a member, the tag of its flow is left out. */
export function viewTags({ tags, flow }: Pick<JobRecord, "tags" | "flow">): readonly string[] {
  return flow === null ? (tags ?? []) : (tags ?? []).filter((tag) => !isMemberTag(tag));
}

/** The record of a completed attempt leaves out what the job's own record has. */
function viewAttempt(entry: AttemptRecord, { endedAt, owner }: JobRecord): AttemptView {
  const { waitedUs, ranUs, ...shown } = entry;
  return {
    ...shown,
    at: new Date(entry.at ?? endedAt ?? 0),
    ...(waitedUs === undefined ? {} : { waitedMs: waitedUs / 1000 }),
    ...(ranUs === undefined ? {} : { ranMs: ranUs / 1000 }),
    ...(entry.worker === undefined && owner !== null ? { worker: owner } : {}),
  };
}

const unreadable = "[unreadable]";

/**
 * If one payload cannot be read (another key ring, another codec), its list is still shown. If the policy of a job
 * cannot be read, its payload is not shown, because the policy says which fields are hidden.
 */
function shown(
  needs: Needs<"coder">,
  payload: string,
  { isReadable, redact: paths }: DecidedPolicy,
): unknown {
  if (!isReadable) return unreadable;
  try {
    return redact(needs.coder.decode(payload), paths);
  } catch {
    return unreadable;
  }
}

/** None, if they are encrypted with a key that this process does not have. */
function shownTexts({ coder }: Needs<"coder">, kept: KeptTexts | undefined): Texts {
  try {
    return openTexts(coder, kept);
  } catch {
    return {};
  }
}

function dateOf(at: number | null): Date | null {
  return at === null ? null : new Date(at);
}
