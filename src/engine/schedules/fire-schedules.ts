/**
 * Firing: a due schedule is looked at, the model decides, and the jobs of its ticks are submitted together with the new
 * state, under the version that was read. Processes that look at once decide the same, and one of them writes: at most
 * one job per tick, without a leader. A process that dies before the submit has done nothing.
 *
 *  read (due) ─► previous job, if the policy asks ─► decide ─► cancel it, if the policy says ─► submit jobs + state
 *
 * A cancel goes before the submit: a process that dies between the two leaves the tick to the next one, which finds the
 * previous job ended and fires.
 *
 * Schedules of one partition that are due together are submitted together, because a unit of its own for each costs a
 * store three times as much. Where one of them was changed meanwhile, the whole unit is refused, and each is tried
 * alone.
 */
import type { EndReason } from "../../model/job/end-reason.ts";
import { decideSchedule, scheduleDue } from "../../model/schedule/decide-schedule.ts";
import type { ScheduleDecision } from "../../model/schedule/decide-schedule.ts";
import { settingsOf } from "../../model/schedule/schedule-state.ts";
import type { ScheduleState } from "../../model/schedule/schedule-state.ts";
import { flowQueue } from "../../model/flow/flow-meta.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { cancelChanges } from "../../model/job/operate.ts";
import type { Doc, DocPut, JobRecord, NewJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { operatorCases } from "../durable/end-case.ts";
import { cancelWhole } from "../flows/requested-changes.ts";
import { cancelsChanged } from "../fleet/change-numbers.ts";
import { jobsOfFiring } from "./firing-template.ts";
import { foundSchedule, partitionOfDoc, readable, schedulePut } from "./schedule-docs.ts";
import type { ReadableSchedule } from "./schedule-docs.ts";

type FireSchedulesNeeds = Needs<"store" | "log" | "submitter">;

/** How many jobs a look made, and what became of it. */
export interface Look {
  readonly outcome: "fired" | "skipped" | "waited" | "unreadable" | "raced" | "refused";
  readonly jobs: number;
  /** When to look again; null for never. */
  readonly dueAt: number | null;
}

/** Another process may know what this one cannot read, so the document is not taken out of the order for good. */
const unreadableAgainMs = 60_000;

/** A firing that is decided and not yet submitted. */
interface Firing {
  readonly schedule: ReadableSchedule;
  readonly decision: ScheduleDecision;
  readonly jobs: readonly NewJob[];
  readonly put: DocPut;
}

const togetherJobsMax = 200;
const cancelTriesMax = 10;

/** Looks at each of these; one that fails leaves the others alone. */
export async function fireSchedules(
  needs: Needs<
    "store" | "log" | "ids" | "changes" | "reads" | "submitter" | "policies" | "strideMs" | "coder"
  >,
  docs: readonly Doc[],
  now: number,
): Promise<readonly PromiseSettledResult<Look>[]> {
  const looks = await Promise.allSettled(docs.map((doc) => decideFiring(needs, doc, now)));
  const firings = looks.flatMap((look, at) =>
    look.status === "fulfilled" && "jobs" in look.value && "put" in look.value
      ? [{ at, firing: look.value }]
      : [],
  );
  const ends = [...looks] as PromiseSettledResult<Look>[];
  const groups = needs.ids.byPartition(firings, ({ firing }) => firing.jobs[0]?.id ?? "").flatMap(chunks);
  await Promise.all(
    groups.map(async (group) => {
      const own = await submitTogether(
        needs,
        group.map(({ firing }) => firing),
        now,
      );
      for (const [index, end] of own.entries()) ends[group[index]?.at as number] = end;
    }),
  );
  return ends;
}

function chunks<Item extends { readonly firing: Firing }>(items: readonly Item[]): Item[][] {
  const groups: Item[][] = [];
  let room = 0;
  for (const item of items) {
    const { length } = item.firing.jobs;
    if (length > room) {
      groups.push([]);
      room = togetherJobsMax;
    }
    groups.at(-1)?.push(item);
    room -= length;
  }
  return groups;
}

async function submitTogether(
  needs: FireSchedulesNeeds,
  firings: readonly Firing[],
  now: number,
): Promise<readonly PromiseSettledResult<Look>[]> {
  if (firings.length > 1) {
    const jobs = firings.flatMap((firing) => firing.jobs);
    const answer = await needs.submitter
      .submit({ jobs, docs: firings.map(({ put }) => put) })
      .catch(() => null);
    if (answer?.kind === "ok")
      return firings.map((firing) => ({ status: "fulfilled", value: fired(firing, now) }));
  }
  return Promise.allSettled(firings.map((firing) => submitOne(needs, firing, now)));
}

function fired({ schedule: { name }, decision, jobs }: Firing, now: number): Look {
  return { outcome: "fired", jobs: jobs.length, dueAt: scheduleDue(decision.state, name, now) };
}

async function decideFiring(
  needs: Needs<"store" | "log" | "ids" | "changes" | "reads" | "policies" | "strideMs" | "coder">,
  doc: Doc,
  now: number,
): Promise<Firing | Look> {
  const found = foundSchedule(doc);
  if (found.state === null) return passOver(needs, doc, found.problem, now);
  const schedule = readable(found);
  const { state, name } = schedule;
  const previous = await previousState(needs, state);
  const partition = partitionOfDoc(needs, doc.id);
  const decision = decideSchedule(state, { name, now, previous, partition });
  if (decision === null) return keep(needs, schedule, state, now, "waited");
  if (decision.cancel !== null) await cancelJob(needs, decision.cancel);
  if (decision.fire.length === 0) return keep(needs, schedule, decision.state, now, "skipped");
  const { template } = schedule;
  const jobs = decision.fire.flatMap(({ tick, id }) => jobsOfFiring(template, { id, schedule: name, tick }));
  return { schedule, decision, jobs, put: schedulePut(doc, decision.state, now) };
}

/** Reads the previous job only where the answer can matter. */
async function previousState(
  needs: Needs<"reads">,
  state: ScheduleState,
): Promise<ReturnType<typeof stateOf>> {
  const mayMatter = settingsOf(state).overlap !== "allow" || state.queued !== null;
  if (!mayMatter || state.lastJob === null) return null;
  return stateOf(await needs.reads.add(state.lastJob));
}

function stateOf(record: JobRecord | null): NonNullable<typeof record>["state"] | null {
  return record?.state ?? null;
}

async function submitOne(needs: FireSchedulesNeeds, firing: Firing, now: number): Promise<Look> {
  const { schedule, decision, jobs, put: doc } = firing;
  const { name, state } = schedule;
  const answer = await needs.submitter.submit({ jobs, docs: [doc] });
  if (answer.kind === "ok") return fired(firing, now);
  if (answer.reason === "doc-changed") return { outcome: "raced", jobs: 0, dueAt: null };
  // The queue takes no new jobs: these ticks pass without one, and the schedule goes on.
  needs.log.warn("a schedule's queue refused its job", { schedule: name, reason: answer.reason });
  const { lastTick, lastJob, skipped } = state;
  const refused = {
    ...decision.state,
    ...{ lastTick, lastJob, fired: state.fired, skipped: skipped + decision.fire.length },
  };
  return keep(needs, schedule, refused, now, "refused");
}

async function keep(
  needs: Needs<"store">,
  { doc, name }: ReadableSchedule,
  state: ScheduleState,
  now: number,
  outcome: Look["outcome"],
): Promise<Look> {
  const isPut = await put(needs, schedulePut(doc, state, now));
  return { outcome: isPut ? outcome : "raced", jobs: 0, dueAt: scheduleDue(state, name, now) };
}

/** Leaves a document that cannot be read as it is, and moves its due time, so that its clock hides no other. */
export async function passOver(
  needs: Needs<"store" | "log">,
  doc: Doc,
  problem: string | null,
  now: number,
): Promise<Look> {
  needs.log.error("a schedule cannot be read and does not fire", { kind: doc.kind, id: doc.id, problem });
  const { kind, id, body, version } = doc;
  const due = { inMs: unreadableAgainMs };
  await put(needs, { kind, id, body, guard: { version }, due });
  return { outcome: "unreadable", jobs: 0, dueAt: now + unreadableAgainMs };
}

async function put(needs: Needs<"store">, doc: DocPut): Promise<boolean> {
  const [answer] = await needs.store.putDocs([doc]);
  return answer?.kind === "ok";
}

async function cancelJob(
  needs: Needs<"store" | "log" | "changes" | "reads" | "policies" | "strideMs" | "coder">,
  id: string,
): Promise<void> {
  const reason: EndReason<"cancelled"> = "next-tick";
  for (let tries = 0; tries < cancelTriesMax; tries++) {
    const record = await needs.reads.add(id);
    if (record === null || isTerminal(record.state)) return;
    if (record.queue === flowQueue) return cancelWhole(needs, record, { reason });
    const policy = needs.policies.read(record.policy, record.queue);
    const changes = cancelChanges({ ...record, policy }, reason, needs.strideMs);
    if (changes.length === 0) return;
    const answer = await needs.changes.add({ id, cases: operatorCases(changes, record.rev) });
    const isRunning = answer.kind === "ok" && answer.state === "running";
    if (isRunning && record.owner !== null) await cancelsChanged(needs, new Set([record.owner]));
    // It may have been claimed between the read and the change.
    if (answer.kind !== "changed") return;
  }
}
