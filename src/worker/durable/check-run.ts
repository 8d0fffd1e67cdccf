/**
 * Whether the given code could continue a run in flight: its journal is replayed with the code, up to its end. No code
 * of a step runs and nothing is written. Code outside of steps does run, as in every replay.
 */
import { openTexts } from "../../codec/sealed-texts.ts";
import { childIdOf } from "../../engine/durable/children.ts";
import type { DurablePart } from "../../engine/durable/durable-definition.ts";
import type { RunJournalView } from "../../engine/durable/read-run.ts";
import type { Needs } from "../../engine/services.ts";
import { differenceText, JournalCursor } from "../../model/durable/journal-cursor.ts";
import { chooseVersion } from "../../model/durable/version-choice.ts";
import { readMeta } from "../../model/job/job-meta.ts";
import type { JobRecord } from "../../store/records.ts";
import type { SingleHandler } from "../handler.ts";
import type { LiveCall } from "./live-call.ts";
import { createRunCodec } from "./run-codec.ts";
import { RunExecution } from "./run-execution.ts";
import type { RunEnd } from "./run-settings.ts";
import type { RunJournal } from "./run-journal.ts";
import { StepCalls } from "./step-calls.ts";

export type RunCheck =
  | { readonly kind: "continues" }
  /** The code does not match the journal; with the first difference in a sentence. */
  | { readonly kind: "diverges"; readonly difference: string }
  /** It began with a version of the handler that is not there. */
  | { readonly kind: "version-missing"; readonly version: number };

type CheckRunNeeds = Needs<"coder" | "platform" | "ids" | "backoffs">;

/** How long the code may take until it asks for the next entry: it does nothing but to replay. */
const unaskedMs = 2000;

/** Never reached: a dry run reads no further and writes nothing. */
const closed = (): never => {
  throw new Error("A dry run has no journal to write to.");
};
const noJournal: RunJournal = { read: closed, append: closed, suspend: closed, commitSlip: closed };
const silence = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export async function checkRun(
  needs: CheckRunNeeds,
  record: JobRecord,
  { round, entries, now }: RunJournalView,
  { definition, handle, older = new Map() }: SingleHandler,
): Promise<RunCheck> {
  const { durable, signals } = definition as unknown as DurablePart;
  const choice = chooseVersion(entries, { current: durable.version, older: [...older.keys()] });
  if (choice.kind === "missing") return { kind: "version-missing", version: choice.version };
  const code = choice.version === durable.version ? handle : older.get(choice.version);
  const { platform, coder, backoffs } = needs;
  const codec = createRunCodec(needs, signals);
  const end = await new Promise<RunEnd>((resolve) => {
    const settings = {
      ...{ platform, codec, round, idleMs: 0, lingerMs: 0, unaskedMs, isDry: true as const },
      version: { version: choice.version, isNew: false },
      judge: () => "retry" as const,
      undoDelayMs: () => null,
    };
    const cursor = new JournalCursor<LiveCall>(record.createdAt);
    const execution = new RunExecution(noJournal, cursor, settings, { entries, slips: [], now }, resolve);
    const { id, createdAt } = record;
    const step = new StepCalls(execution, {
      ...{ run: { run: id, round }, journal: noJournal, codec, platform },
      backoffs: { random: () => platform.random(), custom: backoffs },
      ...{
        acquire: closed,
        usage: { report: closed, reserve: closed },
        input: null,
        takes: (name: string) => Object.hasOwn(signals, name),
      },
      encodeInput: (input) => coder.encode(input, "input"),
      childId: (call) => childIdOf(needs, { run: id, round, call, createdAt }),
    });
    execution.begin(async () => code?.(contextOf(needs, record, step) as never));
  });
  switch (end.kind) {
    case "diverged":
    case "unasked":
      return { kind: "diverges", difference: differenceText(end.difference) };
    case "unreadable":
      return { kind: "diverges", difference: `Its journal cannot be read: ${String(end.error)}.` };
    default:
      return { kind: "continues" };
  }
}

/** What a handler may read without a lease. What it writes is silent. */
function contextOf({ coder, platform }: CheckRunNeeds, record: JobRecord, step: StepCalls): object {
  const { id, name, queue, createdAt, attempt, meta } = record;
  return {
    ...{ id, name, queue, attempt, step, isLastAttempt: false, log: silence },
    input: coder.decode(record.input),
    createdAt: new Date(createdAt),
    headers: openTexts(coder, readMeta(meta).headers),
    signal: new AbortController().signal,
    idempotencyKey: id,
    host: platform.hostName,
    worker: "check",
    progress: () => {},
  };
}
