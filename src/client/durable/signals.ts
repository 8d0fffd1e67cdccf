/**
 * Sends a signal to a durable run: one guarded append to its journal. A suspended run goes on by it; any other run
 * keeps it until one of its waits takes it. A key is accepted once, so a call may be repeated.
 */
import {
  appendOf,
  broadcastKind,
  carryOutBroadcast,
  keptSignal,
  sendTo,
} from "../../engine/durable/kept-signals.ts";
import type { Broadcast, Sent } from "../../engine/durable/kept-signals.ts";
import { carryOutKeyedSignal, keyedSignalUnit } from "../../engine/durable/keyed-signals.ts";
import type { DurablePart, SignalSchemas } from "../../engine/durable/durable-definition.ts";
import { callKeys } from "../../engine/calls/call-limit.ts";
import type { CallOptions } from "../../engine/calls/call-limit.ts";
import { asOneCall } from "../../engine/calls/one-call.ts";
import { settlesWithin } from "../../engine/calls/settles-within.ts";
import type { Needs } from "../../engine/services.ts";
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob, AnySubmission } from "../../engine/submit/job-definition.ts";
import { refusalError } from "../../engine/submit/refusal-error.ts";
import { checkSchema } from "../../engine/submit/standard-schema.ts";
import { unitOf } from "../../engine/submit/submitter.ts";
import type { StandardSchema } from "../../engine/submit/standard-schema.ts";
import { journalLimits } from "../../model/durable/journal-entry.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions } from "../../model/option.ts";
import { memberTag } from "../../model/flow/flow-meta.ts";
import type { ChangeAnswer, SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { JobRecord, NewJob } from "../../store/records.ts";
import { checkIsJob } from "../jobs/check-is-job.ts";

export interface SignalOptions extends CallOptions {
  /** Accepted once by the run, such as the id of a webhook's event. By default each call is a signal of its own. */
  key?: string;
  /** Who sends it: an approval counts distinct sources. */
  source?: string;
}

export type SignalAnswer =
  /** The run was suspended and goes on. */
  | { readonly kind: "delivered" }
  /** The run did not rest: it takes the signal when it waits for it. */
  | { readonly kind: "buffered" }
  /** The run has had a signal with this key. */
  | { readonly kind: "duplicate" }
  | { readonly kind: "refused"; readonly reason: SignalRefusal };

/** `finished`: the job has ended. `buffer-full`: too many signals wait that no wait has taken. */
export type SignalRefusal = "finished" | "buffer-full";

/** To whatever waits at a business key: `step.waitFor(name, { key })`. */
export interface SignalTarget {
  readonly key: string;
}

export interface KeyedSignalOptions extends SignalOptions {
  /**
   * How long a signal that no run waits for is kept for the first one that does, and how long its own key is known. A
   * day by default.
   */
  keep?: Duration;
}

/** Definitions and submissions have no such member. */
export function isTarget(value: unknown): value is SignalTarget {
  return typeof value === "object" && value !== null && "key" in value;
}

/** `buffered`: no run waits there yet. */
export type KeyedSignalAnswer = SignalAnswer & {
  /** How many runs have it. */
  readonly runs: number;
};

/** Which runs a broadcast is for. */
export type BroadcastTarget = { readonly tag: string } | { readonly flow: string };

type SignalsNeeds = Needs<
  | "platform"
  | "giveUpMs"
  | "coder"
  | "ids"
  | "reads"
  | "changes"
  | "policies"
  | "knownJobs"
  | "store"
  | "log"
  | "planner"
  | "submitter"
>;

/** How long the sender waits until the kept signal is taken back. */
const takenBackMs = 1000;

export class Signals {
  readonly #needs: SignalsNeeds;

  constructor(needs: SignalsNeeds) {
    this.#needs = needs;
  }

  async send(
    job: AnyJob | null,
    id: string,
    name: string,
    value: unknown,
    options: SignalOptions = {},
  ): Promise<SignalAnswer> {
    if (job !== null) checkDefinition(job, "signal");
    checkName(id, "signal: id");
    const read = this.#read("signal", name, options);
    return asOneCall(this.#needs, { what: "signal", limit: options }, async (needs) => {
      const record = await needs.reads.add(id);
      if (record === null) throw notFound(id);
      checkIsJob(record, job?.name ?? null);
      checkSignal(needs, record, name);
      const { signals = needs.knownJobs.signalsOf(record.name) } = (job ?? {}) as Partial<DurablePart>;
      const sent = this.#sent(read, signals, value);
      return answerOf(await sendTo(needs, id, sent), id);
    });
  }

  /** Starts the run, unless it is there, and gives it the signal, in one step. */
  async sendWithStart(
    submission: AnySubmission,
    name: string,
    value: unknown,
    options: SignalOptions = {},
  ): Promise<SignalAnswer> {
    const read = this.#read("signal", name, options);
    const { job } = submission;
    checkDefinition(job, "signal");
    checkTakes(job, name);
    const sent = this.#sent(read, (job as unknown as DurablePart).signals, value);
    const { ids, planner } = this.#needs;
    const started = ids.placed(unitOf(this.#needs, [await planner.plan(submission)], [submission]));
    const planned = started.jobs[0] as NewJob;
    const doc = keptSignal(this.#needs, planned.id, sent);
    const unit = { ...started, docs: [...(started.docs ?? []), doc] };
    return asOneCall(this.#needs, { what: "signal", ids: [planned.id] }, async (needs) => {
      const answer = await needs.submitter.submit(unit, options);
      if (answer.kind === "refused") throw refusalError(answer, unit.jobs);
      // A unique key may be held by another run: the signal is for that one, and the kept one is taken back.
      const [run] = answer.ids as readonly [string];
      const made = await sendTo(needs, run, sent).catch((cause: unknown) => {
        throw unknownAfterStart(run, cause);
      });
      // A kept signal that stays is delivered again, which its key makes harmless.
      const taken = needs.store.putDocs([{ kind: doc.kind, id: doc.id, body: null, guard: "any" }]);
      await settlesWithin(needs.platform, taken, takenBackMs);
      const isOurs = made.kind === "repeated" && answer.hows[0] === "created";
      return isOurs ? { kind: "buffered" } : answerOf(made, run);
    });
  }

  /** To every run that waits at the key now, or else to the first one that does. */
  async sendToKey(
    target: SignalTarget,
    name: string,
    value: unknown,
    options: KeyedSignalOptions = {},
  ): Promise<KeyedSignalAnswer> {
    const unit = this.#keyed(target, name, value, { options });
    return asOneCall(this.#needs, { what: "signal", limit: options }, async (needs) => {
      const answer = await needs.submitter.submit(unit);
      if (answer.kind === "refused") return { kind: "duplicate", runs: 0 };
      const { runs, full } = await carryOutKeyedSignal(needs, unit.docs[0].id);
      if (runs > 0) return { kind: "delivered", runs };
      return full > 0 ? { kind: "refused", reason: "buffer-full", runs } : { kind: "buffered", runs };
    });
  }

  /** The same when the caller's transaction commits. A repeat of the sender's key changes nothing. */
  async sendToKeyIn(
    submit: (unit: SubmitUnit) => Promise<SubmitAnswer>,
    target: SignalTarget,
    {
      name,
      value,
      options = {},
    }: { readonly name: string; readonly value: unknown; readonly options?: KeyedSignalOptions },
  ): Promise<string> {
    await submit(this.#keyed(target, name, value, { options, inMs: 0 }));
    return target.key;
  }

  #keyed(
    target: SignalTarget,
    name: string,
    value: unknown,
    { options, inMs }: { readonly options: KeyedSignalOptions; readonly inMs?: number },
  ): ReturnType<typeof keyedSignalUnit> {
    const { keep = keepMs, ...others } = checkOptions(options, "signal", [
      ...signalKeys,
      "keep",
    ]) as KeyedSignalOptions;
    const { key } = checkOptions(target, "signal: its target", ["key"]) as Partial<SignalTarget>;
    const businessKey = checkName(key, "signal: the business key");
    const read = this.#read("signal", name, others);
    // Any job may wait there, so only what all refuse is refused here.
    const takers = this.#needs.knownJobs.takingSignal(read.name);
    const taker = takers.find((schemas) => takes(schemas, read.name, value)) ?? takers[0];
    const sent = { ...this.#sent(read, taker, value), businessKey };
    return keyedSignalUnit(this.#needs, sent, {
      ...{ keepMs: durationMs(keep, "signal: keep"), isRepeatable: others.key !== undefined },
      ...(inMs === undefined ? {} : { inMs }),
    });
  }

  /** Sent when the caller's transaction commits. Nothing about the run is known before, so it is checked later. */
  async sendIn(
    submit: (unit: SubmitUnit) => Promise<SubmitAnswer>,
    target: string | AnySubmission,
    {
      name,
      value,
      options = {},
    }: { readonly name: string; readonly value: unknown; readonly options?: SignalOptions },
  ): Promise<string> {
    const read = this.#read("signal", name, options);
    if (typeof target === "string") {
      const sent = this.#sent(read, undefined, value);
      await submit({ jobs: [], docs: [keptSignal(this.#needs, checkName(target, "signal: id"), sent)] });
      return target;
    }
    checkDefinition(target.job, "signal");
    checkTakes(target.job, name);
    const planned = await this.#needs.planner.plan(target);
    const sent = this.#sent(read, (target.job as unknown as DurablePart).signals, value);
    const started = unitOf(this.#needs, [planned], [target]);
    const unit = { ...started, docs: [...(started.docs ?? []), keptSignal(this.#needs, planned.id, sent)] };
    const answer = await submit(unit);
    if (answer.kind === "refused") throw refusalError(answer, unit.jobs);
    return planned.id;
  }

  /** Gives the signal to every run that lives now and has the tag, or is a node of the flow. */
  async broadcast(
    target: BroadcastTarget,
    name: string,
    value: unknown,
    options: SignalOptions = {},
  ): Promise<{ readonly runs: number }> {
    const what = "broadcast";
    const { tag, flow } = checkOptions(target, what, ["tag", "flow"]) as Record<string, unknown>;
    if ((tag === undefined) === (flow === undefined))
      throw new MillraceError("invalid-option", `${what}: give either a tag or a flow.`);
    const read = this.#read(what, name, options);
    const { ids } = this.#needs;
    const chosen =
      tag === undefined ? memberTag(checkName(flow, `${what}: flow`)) : checkName(tag, `${what}: tag`);
    const body: Broadcast = { ...this.#sent(read, undefined, value), tag: chosen, cursor: null, count: 0 };
    const put = { kind: broadcastKind, id: ids.mint(), body: JSON.stringify(body), guard: "absent" as const };
    return asOneCall(this.#needs, { what, limit: options, isLong: true }, async (needs) => {
      const [answer] = await needs.store.putDocs([{ ...put, due: { inMs: leftMs } }]);
      const version = answer?.kind === "ok" ? answer.version : 0;
      const doc = { kind: put.kind, id: put.id, body: put.body, version, dueAt: null, expiresAt: null };
      return { runs: await carryOutBroadcast(needs, doc) };
    });
  }

  #read(what: string, name: unknown, options: SignalOptions): Omit<Sent, "value"> {
    const { key = this.#needs.ids.mint(), source } = checkOptions(options, what, signalKeys) as SignalOptions;
    return {
      name: checkName(name, `${what}: name`),
      key: checkName(key, `${what}: key`),
      ...(source === undefined ? {} : { source: checkName(source, `${what}: source`) }),
    };
  }

  /** Refuses a value that no run could take. */
  #sent(read: Omit<Sent, "value">, schemas: SignalSchemas | undefined, value: unknown): Sent {
    checkValue(schemas, read.name, value);
    const text = value === undefined ? null : this.#needs.coder.encode(value, "signal");
    const sent = { ...read, value: text };
    if ((appendOf(sent).entry.unread ?? 0) <= journalLimits.unreadBytesMax) return sent;
    throw new MillraceError(
      "payload-too-large",
      `The signal is larger than ${journalLimits.unreadBytesMax} characters: send a reference to its data.`,
    );
  }
}

const signalKeys = ["key", "source", ...callKeys];
const keepMs = 24 * 60 * 60 * 1000;
/** The duty goes on with a broadcast whose sender has not ended it after this time. */
const leftMs = 5000;

/** As `checkSignal`, of a run that is about to start. */
function checkTakes(job: AnyJob, name: string): void {
  const { durable, signals } = job as AnyJob & Partial<DurablePart>;
  if (durable === null || signals === undefined)
    throw new MillraceError("not-durable", `The job ${JSON.stringify(job.name)} is not durable.`);
  if (Object.hasOwn(signals, name)) return;
  throw new MillraceError(
    "unknown-signal",
    `The job ${JSON.stringify(job.name)} takes no signal ${JSON.stringify(name)}.`,
  );
}

/** Refuses a signal that the job cannot take. */
export function checkSignal(
  needs: Needs<"policies">,
  { id, name: job, policy, queue }: JobRecord,
  name: string,
): void {
  const signals = needs.policies.read(policy, queue).durable;
  if (signals === null)
    throw new MillraceError(
      "not-durable",
      `The job ${JSON.stringify(id)} of ${JSON.stringify(job)} is not durable, so it takes no signals.`,
    );
  if (signals.includes(name)) return;
  const takes = signals.length === 0 ? "It takes none" : `It takes ${signals.join(", ")}`;
  throw new MillraceError(
    "unknown-signal",
    `The job ${JSON.stringify(id)} takes no signal ${JSON.stringify(name)}. ${takes}.`,
  );
}

/** Refuses a value that no run would take; says nothing if the schemas are not known here. */
export function checkValue(schemas: SignalSchemas | undefined, name: string, value: unknown): void {
  const schema = (schemas as Readonly<Record<string, StandardSchema>> | undefined)?.[name];
  if (schema === undefined) return;
  const what = `The signal ${JSON.stringify(name)}`;
  const checked = checkSchema(schema, value, { code: "invalid-input", what });
  if (!(checked instanceof Promise)) return;
  checked.catch(() => undefined);
  throw new MillraceError(
    "invalid-option",
    `${what}: the schema of a signal must answer at once, because a run reads it between two of its steps.`,
  );
}

function takes(schemas: SignalSchemas, name: string, value: unknown): boolean {
  try {
    checkValue(schemas, name, value);
    return true;
  } catch {
    return false;
  }
}

/** The run is there, and the signal is kept for it: what failed is only the call that says what became of it. */
function unknownAfterStart(run: string, cause: unknown): unknown {
  if (!isMillraceError(cause)) return cause;
  const message = `The run ${JSON.stringify(run)} is there and the signal is kept for it, but what became of it is unknown.`;
  return new MillraceError("outcome-unknown", message, { cause, ids: [run] });
}

function answerOf(answer: ChangeAnswer, id: string): SignalAnswer {
  switch (answer.kind) {
    case "ok":
      return { kind: answer.from === "suspended" ? "delivered" : "buffered" };
    case "repeated":
    case "already":
      return { kind: "duplicate" };
    case "full":
      return { kind: "refused", reason: "buffer-full" };
    case "gone":
      throw notFound(id);
    case "changed":
    case "key-held":
      if (answer.kind === "changed" && isTerminal(answer.state))
        return { kind: "refused", reason: "finished" };
      throw new MillraceError("job-changed", `The job ${JSON.stringify(id)} takes no signal now.`);
  }
}

function notFound(id: string): MillraceError {
  return new MillraceError("job-not-found", `There is no job ${JSON.stringify(id)}.`);
}
