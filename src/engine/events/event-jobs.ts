/**
 * Some fields of events are not in the feed. They are read from the jobs, in batches: tags for a filter, the redaction
 * of progress, the ends of a flow's nodes, and the times and errors of attempts that were not completed at the first
 * try. If a job was deleted, its events are emitted without these fields; if its tags are unknown, they do not pass a
 * filter by tag.
 */
import { redact } from "../../codec/redact.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import type { AttemptRecord } from "../../model/job/attempt-log.ts";
import { BoundedMap } from "../../model/bounded-map.ts";
import { fieldsOfAttempt } from "../../model/events/event.ts";
import type { MillraceEvent } from "../../model/events/event.ts";
import { countMembers } from "../../model/flow/decide-flow.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import type { EventFilter } from "./show-events.ts";

/** Jobs may have large inputs, so few are read at once. */
const batchMax = 100;
const knownMax = 50_000;
const none: readonly string[] = [];

/** Whether the event lacks a field that only its job has, or the filter needs the job's tags. */
export function lacksJob(event: MillraceEvent, { tag }: EventFilter): boolean {
  return tag !== undefined || lacksFields(event);
}

function lacksFields(event: MillraceEvent): boolean {
  switch (event.kind) {
    case "progress":
    case "flow-completed":
    case "flow-failed":
    case "flow-cancelled":
      return true;
    default:
      return lacksAttempt(event);
  }
}

function isFlowEnd(
  event: MillraceEvent,
): event is MillraceEvent<"flow-completed" | "flow-failed" | "flow-cancelled"> {
  return event.kind === "flow-completed" || event.kind === "flow-failed" || event.kind === "flow-cancelled";
}

/** The id of the job or flow of the event. */
function subjectOf(event: MillraceEvent): string | null {
  return "flowId" in event ? event.flowId : event.jobId;
}

/** The feed carries the attempt log only of a job that completes at its first try. */
function lacksAttempt(
  event: MillraceEvent,
): event is MillraceEvent<"completed" | "failed" | "retry-scheduled"> {
  const { kind } = event;
  return (kind === "completed" || kind === "failed" || kind === "retry-scheduled") && event.ranMs === null;
}

export class EventJobs {
  readonly #needs: Needs<"store" | "coder" | "policies">;
  /** The tags of a job never change, so they may be cached. */
  readonly #tags = new BoundedMap<string, readonly string[]>(knownMax);

  constructor(needs: Needs<"store" | "coder" | "policies">) {
    this.#needs = needs;
  }

  async complete(events: readonly MillraceEvent[], filter: EventFilter): Promise<readonly MillraceEvent[]> {
    const complete: MillraceEvent[] = [];
    for (let from = 0; from < events.length; from += batchMax)
      complete.push(...(await this.#completeBatch(events.slice(from, from + batchMax), filter)));
    return complete;
  }

  async #completeBatch(
    events: readonly MillraceEvent[],
    { tag }: EventFilter,
  ): Promise<readonly MillraceEvent[]> {
    const wanted = events.filter(
      (event) => lacksFields(event) || (tag !== undefined && !this.#tags.has(subjectOf(event) ?? "")),
    );
    const records = await this.#read(wanted.flatMap((event) => subjectOf(event) ?? []));
    const tagged =
      tag === undefined
        ? events
        : events.filter((event) => this.#tags.get(subjectOf(event) ?? "")?.includes(tag) === true);
    return tagged.map((event) => this.#withJob(event, records.get(subjectOf(event) ?? "")));
  }

  async #read(ids: readonly string[]): Promise<ReadonlyMap<string, JobRecord>> {
    const found = new Map<string, JobRecord>();
    if (ids.length === 0) return found;
    for (const record of await this.#needs.store.readJobs([...new Set(ids)])) {
      if (record === null) continue;
      found.set(record.id, record);
      this.#tags.set(record.id, record.tags ?? none);
    }
    return found;
  }

  #withJob(event: MillraceEvent, record: JobRecord | undefined): MillraceEvent {
    if (event.kind === "progress") return { ...event, progress: this.#shown(event.progress, record) };
    if (isFlowEnd(event))
      return record === undefined ? event : { ...event, counts: countMembers(readWaits(record.waits ?? "")) };
    if (record === undefined || !lacksAttempt(event)) return event;
    const { error, waitedMs, ranMs } = fieldsOfAttempt(entryOf(event, record));
    const times = { waitedMs, ranMs };
    return event.kind === "completed" ? { ...event, ...times } : { ...event, error, ...times };
  }

  /** The decoded progress without redacted fields; undefined if the job is deleted or cannot be read here. */
  #shown(progress: unknown, record: JobRecord | undefined): unknown {
    if (record === undefined || typeof progress !== "string") return undefined;
    const { isReadable, redact: paths } = this.#needs.policies.read(record.policy, record.queue);
    if (!isReadable) return undefined;
    try {
      return redact(this.#needs.coder.decode(progress), paths);
    } catch {
      return undefined;
    }
  }
}

/** The entry of the event's attempt. With several rounds, the one that ended nearest to the event. */
function entryOf(
  { attempt, at }: { readonly attempt: number; readonly at: Date },
  { attempts, endedAt }: JobRecord,
): AttemptRecord | undefined {
  const entries = readAttemptLog(attempts).entries.filter((entry) => entry.attempt === attempt);
  const distance = (entry: AttemptRecord): number => Math.abs((entry.at ?? endedAt ?? 0) - at.getTime());
  return entries.toSorted((one, other) => distance(one) - distance(other))[0];
}
