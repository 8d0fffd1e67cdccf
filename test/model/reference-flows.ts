/**
 * Rule R4 of the reference model: members of flows, their edges and what arrives along them. Written from the header of
 * src/store/store.ts.
 */
import type { Block } from "../../src/model/job/change.ts";
import { readEdge } from "../../src/model/flow/edge.ts";
import { readFreed } from "../../src/model/flow/freed.ts";
import { isTerminal, stateCodes, terminalStates } from "../../src/model/job/job-state.ts";
import type { JobState, TerminalState } from "../../src/model/job/job-state.ts";
import { storeLimits } from "../../src/store/contract-limits.ts";
import type { Growth, NewJob } from "../../src/store/records.ts";
import type { Job, ReferenceRules } from "./reference-rules.ts";

/** need, slack, passed, defers, total, then one count for each terminal state. */
type Counts = number[];
const [need, slack, passed, defers, total, firstEnd] = [0, 1, 2, 3, 4, 5] as const;
const foreverMs = 8_640_000_000_000_000;

const countsOf = (job: Job): Counts => (job.waits ?? "").split(",").map(Number);
const has = (bits: number, end: JobState): boolean =>
  ((bits >> terminalStates.indexOf(end as TerminalState)) & 1) === 1;

export class ReferenceFlows {
  readonly #rules: ReferenceRules;
  /** Members that have ended in this unit. */
  #ended: string[] = [];

  constructor(rules: ReferenceRules) {
    this.#rules = rules;
  }

  bear(job: Job, { flow = null, edges = null, freed = null, waits = null }: NewJob): void {
    Object.assign(job, { flow, edges, freed, waits });
    if (waits === null || (freed !== null && countsOf(job)[need]! <= 0)) return;
    job.state = "blocked";
    job.ttlAt = null;
  }

  /** Answers whether it is kept whatever its finish says. */
  end(job: Job): boolean {
    if (job.flow === null || job.waits === null) return false;
    job.keepUntil = foreverMs;
    job.resultUntil = null;
    this.#ended.push(job.id);
    return true;
  }

  /** Nobody has ended in a unit that is refused. */
  takeBack(): void {
    this.#ended = [];
  }

  passOnAll(): void {
    const ended = this.#ended;
    this.#ended = [];
    for (const id of ended) {
      const job = this.#rules.all.jobs.get(id);
      if (job !== undefined) this.passOn(job, storeLimits.edgesAtOnceMax);
    }
  }

  passOn(job: Job, max: number): void {
    const edges = job.edges ?? [];
    const from = countsOf(job)[passed]!;
    this.#set(job, passed, Math.min(edges.length, from + max));
    for (const text of edges.slice(from, from + max)) this.#go(job, text);
    if (from + max < edges.length) this.deferWork(job.id);
  }

  #go(job: Job, text: string): void {
    const edge = readEdge(text);
    const target = this.#rules.all.jobs.get(edge.target === "" ? job.flow! : `${job.flow}.${edge.target}`);
    if (target === undefined || target.waits === null) return;
    if (target.state !== "blocked" && edge.target !== "") return;
    const before = countsOf(target);
    this.#count(target, text, job.state, 1);
    const after = countsOf(target);
    if (target.state !== "blocked") return;
    if (before[slack]! >= 0 && after[slack]! < 0) this.deferWork(target.id);
    if (before[need]! <= 0 || after[need]! > 0) return;
    if (after[defers] === 1) this.deferWork(target.id);
    if (after[slack]! < 0) return;
    if (target.freed !== null) this.#rules.move(target, this.#place(target), "freed");
  }

  #count(target: Job, text: string, end: JobState, change: number): void {
    const edge = readEdge(text);
    const counts = countsOf(target);
    if (has(edge.meets, end)) counts[need]! -= change;
    if (has(edge.misses, end)) counts[slack]! -= change;
    if (edge.target === "" && counts.length > firstEnd)
      counts[firstEnd + stateCodes[end] - stateCodes.completed]! += change;
    target.waits = counts.join(",");
  }

  #set(job: Job, at: number, value: number): void {
    const counts = countsOf(job);
    counts[at] = value;
    job.waits = counts.join(",");
  }

  #place(job: Job): JobState {
    const { due, ...by } = readFreed(job.freed!);
    this.#rules.place(job, due, by);
    return job.dueAt <= this.#rules.now ? "ready" : "scheduled";
  }

  hasPassedOn(job: Job): boolean {
    return job.waits === null || countsOf(job)[passed]! >= (job.edges ?? []).length;
  }

  /** A finished member counts among the living of its flow again. */
  comeBack(job: Job): void {
    if (job.waits === null || !isTerminal(job.state)) return;
    this.#set(job, passed, 0);
    const flow = job.flow === null ? undefined : this.#rules.all.jobs.get(job.flow);
    if (flow !== undefined && flow.waits !== null) this.#count(flow, job.edges![0]!, job.state, -1);
  }

  /** The state of a job that is counted anew. */
  countAnew(job: Job, { parents, waits }: Block): JobState {
    if (waits !== null) {
      this.#set(job, need, waits.need);
      this.#set(job, slack, waits.slack);
    }
    for (const text of parents) {
      const edge = readEdge(text);
      const parent = this.#rules.all.jobs.get(edge.target);
      const end = parent === undefined ? "skipped" : this.#hasCome(parent, job.id) ? parent.state : null;
      if (end !== null) this.#count(job, text, end, 1);
    }
    const counts = countsOf(job);
    if (counts[slack]! < 0 || (job.freed === null && counts[need]! <= 0)) this.deferWork(job.id);
    if (job.freed === null || counts[need]! > 0 || counts[slack]! < 0) return "blocked";
    if (counts[defers] === 1) this.deferWork(job.id);
    return this.#place(job);
  }

  #hasCome(parent: Job, id: string): boolean {
    if (!isTerminal(parent.state) || parent.waits === null) return false;
    const at = (parent.edges ?? []).findIndex((text) => `${parent.flow}.${readEdge(text).target}` === id);
    return at < countsOf(parent)[passed]!;
  }

  /** Answers the id that cannot grow. */
  grow({ grows = [], links = [] }: Growth): string | null {
    for (const { id, need: more, slack: looser, members } of grows) {
      const job = this.#rules.all.jobs.get(id);
      if (job === undefined || job.state !== "blocked" || job.cancelAsked || job.waits === null) return id;
      const counts = countsOf(job);
      counts[need]! += more;
      counts[slack]! += looser;
      if (counts.length > firstEnd) counts[total]! += members;
      job.waits = counts.join(",");
    }
    for (const { from, edge } of links) {
      const job = this.#rules.all.jobs.get(from);
      if (job === undefined || job.waits === null || job.flow === null) return from;
      const isThrough = isTerminal(job.state) && this.hasPassedOn(job);
      job.edges = [...(job.edges ?? []), edge];
      if (isThrough) this.passOn(job, 1);
    }
    return null;
  }

  /** A flow that goes leaves its members to a duty. */
  leave(job: Job): void {
    if (job.waits !== null && countsOf(job).length > firstEnd) this.deferWork(job.id);
  }

  deferWork(id: string): void {
    this.#rules.putDoc({ kind: "deferred", id, body: "", due: { inMs: 0 }, guard: "any" });
  }
}
