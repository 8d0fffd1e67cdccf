/**
 * Explains why a job is not running and when it is expected to, from its record, the state counts and the registered
 * workers.
 */
import { reasonText } from "../../model/job/after-run.ts";
import type { Needs } from "../../engine/services.ts";
import { readWorkers, servingWorkers } from "../../engine/fleet/registration.ts";
import type { LiveWorker } from "../../engine/fleet/registration.ts";
import { explainBlocked } from "./explain-blocked.ts";
import { explainRun, missingVersion } from "./explain-run.ts";
import { isFlow } from "../flows/flow-jobs.ts";
import { withAnyHolder } from "./group-holders.ts";
import type { Held } from "./held-view.ts";
import { heldByCapability } from "./held-by-capability.ts";
import type { HeldByCapability } from "./held-by-capability.ts";
import { readHeldByGate, viewHeldByGate } from "./held-by-gate.ts";
import { readQuarantinedItems } from "../workers/quarantined.ts";
import type { QuarantinedDutyItem } from "../workers/quarantined.ts";
import { readAttemptLog } from "../../model/job/attempt-log.ts";
import { durationText } from "../../model/duration.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { groupOfLane } from "../../model/routing/lane.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { quoteNames } from "../../model/name.ts";
import { requiresSame } from "../../model/routing/route.ts";
import { missingSentence } from "../../store/partitioned/missing-partition.ts";
import type { JobRecord } from "../../store/records.ts";
import { withoutGates } from "../../store/state-counts.ts";

export interface Explanation {
  readonly id: string;
  readonly state: JobState;
  /** The explanation, in one sentence. */
  readonly why: string;
  /** What holds a ready job back: a limit, its group, the pause of its queue, a missing capability; else null. */
  readonly held: Held | null;
  /** When the job is expected to go on; null if that is not known. */
  readonly expectedAt: Date | null;
  /** Ready jobs of the same queue and name with the same requirements, this one included. */
  readonly readyLikeThis: number;
}

export async function explainJob(
  needs: Needs<"store" | "policies" | "reads">,
  id: string,
): Promise<Explanation | null> {
  const [records, stateCounts, { now }, workers, items] = await Promise.all([
    needs.store.readJobs([id]),
    needs.store.countJobs(),
    needs.store.describe(),
    readWorkers(needs.store, true),
    readQuarantinedItems(needs.store),
  ]);
  const record = records[0];
  if (record === null || record === undefined) return null;
  const { state, queue, name, requires = [] } = record;
  const missing = (needs.store.missing?.() ?? []).map((each) => ` ${missingSentence(each)}`).join("");
  const quarantined = describeCase(items.find(({ item }) => item === id));
  const count = (wanted: JobState): number =>
    withoutGates(stateCounts).find(
      (stateCount) =>
        stateCount.queue === queue &&
        stateCount.name === name &&
        stateCount.state === wanted &&
        requiresSame(stateCount.requires ?? [], requires),
    )?.count ?? 0;
  const [found = null] = await readHeldByGate(needs, [record]);
  const byGate = found === null ? null : await withAnyHolder(needs.store, found);
  const lacking = heldByCapability(record, workers);
  const held = byGate === null ? lacking : viewHeldByGate(byGate);
  const unable = isTerminal(state) ? "" : await missingVersion(needs, record, workers);
  const explain = (why: string, expectedAt: number | null = null): Explanation => ({
    id,
    // A flow that has not ended counts as running.
    state: isFlow(record) && state === "blocked" ? "running" : state,
    why: isTerminal(state) ? why : why + unable + quarantined + missing,
    held,
    expectedAt: expectedAt === null ? null : new Date(expectedAt),
    readyLikeThis: count("ready"),
  });
  if (isTerminal(state))
    return explain(
      state === "completed"
        ? "It has completed."
        : `It ended as ${state}: ${reasonText(record)}.${heldGroup(record)}`,
    );
  const ended = record.attempt - (record.countsAttempt === 0 ? 1 : 0);
  const nth = `${ended <= 0 ? "" : ` Attempt ${ended} has ended.`}${handedBack(record)}${throttled(record)}`;
  switch (state) {
    case "scheduled": {
      const run = record.durable === 0 ? null : await explainRun(needs, id);
      if (run !== null) return explain(run.why + nth, run.expectedAt ?? record.dueAt);
      const isOverdue = record.dueAt <= now;
      const why = isOverdue
        ? "It is due, but was not promoted: no process runs the promote duty on this store."
        : `It is not due for ${durationText(record.dueAt - now)}.${nth}${heldPlace(record)}`;
      return explain(why, record.dueAt);
    }
    case "ready": {
      if (byGate !== null) return explain(byGate.why + nth, byGate.until);
      const serving = workers.filter(({ queues }) => queues.includes(queue));
      if (serving.length === 0)
        return explain(`No live worker serves the queue ${JSON.stringify(queue)}.${nth}`);
      if (servingWorkers(serving, { queue, name }).length === 0)
        return explain(
          `No live worker of the queue ${JSON.stringify(queue)} has a handler for ${JSON.stringify(name)}.${nth}`,
        );
      if (lacking !== null) return explain(`${missingOffer(record, lacking)}${nth}`);
      const able = servingWorkers(serving, record);
      const running = count("running");
      const offering = requires.length === 0 ? "" : ` and offers ${quoteNames(requires)}`;
      const why = `It waits for a free slot of a worker that serves the queue ${JSON.stringify(queue)} and has a handler for ${JSON.stringify(name)}${offering}; ${running} like it ${running === 1 ? "is" : "are"} running.`;
      return explain(`${why}${inLine(record)}${heldSlots(able)}${nth}`);
    }
    case "running":
      return explain(
        record.cancelAsked
          ? `It runs on ${record.owner}; its cancel was asked for${cancelReason(record)} and its handler was signalled.`
          : `It runs on ${record.owner}, attempt ${record.attempt}; its lease ends in ${durationText(Math.max(0, (record.leaseEndsAt ?? now) - now))} unless renewed.`,
      );
    case "blocked":
      return explain(await explainBlocked(needs, record));
    case "suspended": {
      const run = await explainRun(needs, id);
      return run === null
        ? explain("It is about to go on: what it waited for has come.")
        : explain(run.why, run.expectedAt);
    }
  }
}

function missingOffer({ queue, name, requires = [] }: JobRecord, { missing }: HeldByCapability): string {
  const who = `No live worker of the queue ${JSON.stringify(queue)} with a handler for ${JSON.stringify(name)}`;
  return missing.length < requires.length || requires.length === 1
    ? `${who} offers ${quoteNames(missing)}, which it requires.`
    : `${who} offers all of ${quoteNames(requires)}, which it requires.`;
}

function heldSlots(workers: readonly LiveWorker[]): string {
  const held = workers.filter(({ abandoned }) => abandoned > 0);
  if (held.length === 0) return "";
  const count = held.reduce((sum, { abandoned }) => sum + abandoned, 0);
  const where = held.map(({ worker }) => worker).join(", ");
  return count === 1
    ? ` One slot is held by a handler that ignores its abort, on ${where}.`
    : ` ${count} slots are held by handlers that ignore their abort, on ${where}.`;
}

/** Does not say whether something else holds the first job of the group: that would take a read of the whole group. */
function inLine({ laneKey }: JobRecord): string {
  const group = groupOfLane(laneKey);
  return group === null
    ? ""
    : ` Jobs of its group ${JSON.stringify(group)} that are before it in line go first.`;
}

function heldPlace({ laneKey, keepsLane }: JobRecord): string {
  const group = groupOfLane(laneKey);
  if (keepsLane === 0 || group === null) return "";
  return ` It holds its place in the group ${JSON.stringify(group)} meanwhile.`;
}

function heldGroup({ laneKey, keepsLane }: JobRecord): string {
  const group = groupOfLane(laneKey);
  if (keepsLane === 0 || group === null) return "";
  return ` It holds its group ${JSON.stringify(group)} until it is replayed or deleted.`;
}

function describeCase(item: QuarantinedDutyItem | undefined): string {
  if (item === undefined) return "";
  const { duty, failures, error, until } = item;
  return ` The duty ${duty} failed on it ${failures} times and quarantines it until ${until.toISOString()}: ${error}`;
}

function handedBack({ attempts }: JobRecord): string {
  const { handedBack: note } = readAttemptLog(attempts);
  if (note === undefined) return "";
  const times = note.count === 1 ? "once" : `${note.count} times`;
  return ` It was handed back ${times}, last by ${note.worker}: ${note.reason}. ${note.message}`;
}

function throttled({ attempts }: JobRecord): string {
  const { throttled: note } = readAttemptLog(attempts);
  if (note === undefined) return "";
  const times = note.count === 1 ? "once" : `${note.count} times`;
  return ` It was throttled ${times}, last by the limit ${JSON.stringify(note.limit)}.`;
}

function cancelReason({ attempts }: JobRecord): string {
  const { cancelReason: reason } = readAttemptLog(attempts);
  return reason === undefined ? "" : ` (${reason})`;
}
