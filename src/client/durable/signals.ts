/**
 * Sends a signal to a durable run: one guarded append to its journal. A suspended run goes on by it; any other run
 * keeps it until one of its waits takes it. A key is accepted once, so a call may be repeated.
 */
import { appendChange } from "../../engine/durable/append-change.ts";
import type { DurablePart, SignalSchemas } from "../../engine/durable/durable-definition.ts";
import { callKeys, withinLimit } from "../../engine/calls/call-limit.ts";
import type { CallOptions } from "../../engine/calls/call-limit.ts";
import type { Needs } from "../../engine/services.ts";
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob } from "../../engine/submit/job-definition.ts";
import { checkSchema } from "../../engine/submit/standard-schema.ts";
import type { StandardSchema } from "../../engine/submit/standard-schema.ts";
import { writeEntry } from "../../model/durable/entry-text.ts";
import { journalLimits } from "../../model/durable/journal-entry.ts";
import { MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions } from "../../model/option.ts";
import type { ChangeAnswer } from "../../store/operations.ts";
import type { JobRecord } from "../../store/records.ts";
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

type SignalsNeeds = Needs<"platform" | "coder" | "ids" | "reads" | "changes" | "policies" | "knownSignals">;

const unreadMax = { count: journalLimits.unreadSignalsMax, size: journalLimits.unreadBytesMax };

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
    checkName(name, "signal: name");
    const { key = this.#needs.ids.mint(), source } = checkOptions(options, "signal", [
      ...["key", "source"],
      ...callKeys,
    ]) as SignalOptions;
    checkName(key, "signal: key");
    if (source !== undefined) checkName(source, "signal: source");
    const { platform } = this.#needs;
    return withinLimit(options, {
      ...{ platform, what: "signal", isWrite: true },
      run: async () => {
        const record = await this.#needs.reads.add(id);
        if (record === null) throw notFound(id);
        checkIsJob(record, job?.name ?? null);
        checkSignal(this.#needs, record, name);
        const { signals = this.#needs.knownSignals.of(record.name) } = (job ?? {}) as Partial<DurablePart>;
        checkValue(signals, name, value);
        const body = {
          ...{ kind: "signal" as const, name, value: this.#encode(value) },
          ...(source === undefined ? {} : { source }),
        };
        const entry = writeEntry({ key: `signal:${key}`, body });
        if ((entry.unread ?? 0) > unreadMax.size)
          throw new MillraceError(
            "payload-too-large",
            `The signal is larger than ${unreadMax.size} characters: send a reference to its data.`,
          );
        return answerOf(await this.#needs.changes.add(appendChange(id, { entry, unreadMax })), id);
      },
    });
  }

  #encode(value: unknown): string | null {
    return value === undefined ? null : this.#needs.coder.encode(value, "signal");
  }
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

function checkValue(schemas: SignalSchemas | undefined, name: string, value: unknown): void {
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
