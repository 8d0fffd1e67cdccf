/**
 * Approvals from outside: tokens with which one source answers one wait of one run, such as by a link in an e-mail. A
 * token is checked before anything about the run is read or said. To look at one changes nothing, because mail scanners
 * open links; an answer is a signal of the token's source, which the journal accepts once.
 */
import { roundOf } from "../../model/durable/durable-marks.ts";
import { waitKey } from "../../model/durable/call-key.ts";
import { writeEntry } from "../../model/durable/entry-text.ts";
import { journalLimits } from "../../model/durable/journal-entry.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";
import { answerKeyOf, checkToken, signToken } from "../../engine/durable/approval-token.ts";
import type { TokenClaims } from "../../engine/durable/approval-token.ts";
import { appendChange } from "../../engine/durable/append-change.ts";
import { readRun } from "../../engine/durable/read-run.ts";
import type { RunJournalView } from "../../engine/durable/read-run.ts";
import { TokenKeys } from "../../engine/durable/token-keys.ts";
import type { Needs } from "../../engine/services.ts";
import type { JobRecord } from "../../store/records.ts";
import { refuse } from "../jobs/job-changes.ts";
import { checkSignal, checkValue } from "./signals.ts";

type ApprovalsNeeds = Needs<
  "store" | "coder" | "platform" | "ids" | "reads" | "changes" | "policies" | "knownJobs"
>;

export interface TokenOptions {
  /** Who is to answer: an approval counts distinct sources. */
  source: string;
  /** How long the token is accepted. */
  expires: Duration;
  /** Which wait for this signal, counted from 1; by default the one that is open, or else the next one. */
  occurrence?: number;
}

export interface RotateOptions {
  /** How long tokens that were signed before are still accepted. */
  grace: Duration;
}

/** A token that may not answer, and why. Nothing about the run is said of a token that is not ours. */
export type TokenRefusal =
  /** Malformed, forged, or signed with a key that was retired. */
  | { readonly kind: "invalid" }
  | { readonly kind: "expired" }
  /** This source has answered. */
  | { readonly kind: "used" }
  /** The wait is over, the run has ended, or it has begun anew. */
  | { readonly kind: "closed" };

export type TokenLook =
  | {
      readonly kind: "open";
      /** The id of the run. */
      readonly run: string;
      /** The name of its job. */
      readonly job: string;
      readonly signal: string;
      readonly source: string;
      readonly expiresAt: Date;
      /** Whether the run waits for it already. */
      readonly isAwaited: boolean;
    }
  | TokenRefusal;

export type AnswerResult = { readonly kind: "accepted" } | TokenRefusal;

export class Approvals {
  readonly #needs: ApprovalsNeeds;
  readonly #keys: TokenKeys;

  constructor(needs: ApprovalsNeeds) {
    this.#needs = needs;
    this.#keys = new TokenKeys(needs);
  }

  /** A token for one wait of a run. */
  async token(run: string, signal: string, options: TokenOptions): Promise<string> {
    const what = "approvals.token";
    const given = checkOptions(options, what, ["source", "expires", "occurrence"]) as unknown as TokenOptions;
    const source = checkName(given.source, `${what}: source`);
    const expiresMs = durationMs(given.expires, `${what}: expires`);
    const record = await this.#mustRead(checkName(run, `${what}: run`));
    checkSignal(this.#needs, record, checkName(signal, `${what}: signal`));
    const journal = await readRun(this.#needs, run);
    if (journal === null) throw notFound(run);
    const occurrence =
      given.occurrence === undefined
        ? nextOccurrence(journal, signal)
        : checkWhole(given.occurrence, `${what}: occurrence`, 1, journalLimits.entriesMax);
    const claims: TokenClaims = {
      ...{ run, round: journal.round, wait: waitKey(signal, occurrence), source },
      expiresAt: journal.now + expiresMs,
    };
    return signToken(claims, await this.#keys.signing(), namespace);
  }

  /** What the token is for, and whether it may still answer. Changes nothing. */
  async look(token: string): Promise<TokenLook> {
    const checked = await this.#check(token);
    if (checked.kind !== "ok") return checked;
    const { claims } = checked;
    const found = await this.#find(claims);
    if (found.kind !== "open") return found;
    const { record, journal, signal } = found;
    return {
      ...{ kind: "open", run: claims.run, job: record.name, signal, source: claims.source },
      expiresAt: new Date(claims.expiresAt),
      isAwaited: journal.steps.some(({ call, state }) => call === claims.wait && state === "waiting"),
    };
  }

  /**
   * Answers in the name of the token's source. It counts once, however often it is repeated. A value that the run would
   * refuse throws and does not use the token up, if this process knows the job's definition.
   */
  async answer(token: string, value: unknown): Promise<AnswerResult> {
    const checked = await this.#check(token);
    if (checked.kind !== "ok") return checked;
    const { claims } = checked;
    const found = await this.#find(claims);
    if (found.kind !== "open") return found;
    const { run, round, wait, source } = claims;
    checkValue(this.#needs.knownJobs.signalsOf(found.record.name), found.signal, value);
    const text = this.#needs.coder.encode(value, "the answer");
    const body: EntryBody = { kind: "signal", name: found.signal, value: text, source, wait };
    const entry = writeEntry({ key: answerKeyOf(claims), body });
    const unreadMax = { count: journalLimits.unreadSignalsMax, size: journalLimits.unreadBytesMax };
    const answer = await this.#needs.changes.add(appendChange(run, { entry, unreadMax }, round));
    switch (answer.kind) {
      case "ok":
        return { kind: "accepted" };
      case "repeated":
        return { kind: "used" };
      case "changed":
      case "gone":
        return { kind: "closed" };
      default:
        refuse(answer, run);
        return { kind: "accepted" };
    }
  }

  /** Signs with a new key from now on. The tokens of the present ones are accepted for as long as `grace` says. */
  async rotateKeys(options: RotateOptions): Promise<void> {
    const { grace } = checkOptions(options, "approvals.rotateKeys", ["grace"]) as unknown as RotateOptions;
    await this.#keys.rotate(durationMs(grace, "approvals.rotateKeys: grace"));
  }

  async #check(
    token: unknown,
  ): Promise<{ readonly kind: "ok"; readonly claims: TokenClaims } | TokenRefusal> {
    const [{ now }, keys] = await Promise.all([this.#needs.store.describe(), this.#keys.read()]);
    return checkToken(token, keys, { namespace, now });
  }

  async #find(claims: TokenClaims): Promise<
    | {
        readonly kind: "open";
        readonly record: JobRecord;
        readonly journal: RunJournalView;
        readonly signal: string;
      }
    | TokenRefusal
  > {
    const { run, round, wait } = claims;
    const record = await this.#needs.reads.add(run);
    if (record === null || isTerminal(record.state) || roundOf(record.durable) !== round)
      return { kind: "closed" };
    const journal = await readRun(this.#needs, run);
    if (journal === null || journal.round !== round) return { kind: "closed" };
    const { entries } = journal;
    if (entries.some(({ key }) => key === answerKeyOf(claims))) return { kind: "used" };
    if (entries.some(({ key }) => key === `end:${wait}`)) return { kind: "closed" };
    const signal = this.#signalsOf(record).find((name) => wait.startsWith(waitKey(name, 1).slice(0, -1)));
    return signal === undefined ? { kind: "closed" } : { kind: "open", record, journal, signal };
  }

  async #mustRead(run: string): Promise<JobRecord> {
    const record = await this.#needs.reads.add(run);
    if (record === null) throw notFound(run);
    if (!isTerminal(record.state)) return record;
    throw new MillraceError("job-changed", `The job ${JSON.stringify(run)} is ${record.state} already.`);
  }

  #signalsOf({ policy, queue }: JobRecord): readonly string[] {
    return this.#needs.policies.read(policy, queue).durable ?? [];
  }
}

/** The keys lie in the store itself, so a token of another store is signed with another key. */
const namespace = "approval";

function notFound(run: string): MillraceError {
  return new MillraceError("job-not-found", `There is no job ${JSON.stringify(run)}.`);
}

/** The wait for this signal that is open, or else the one that comes next. */
function nextOccurrence({ steps }: RunJournalView, signal: string): number {
  const prefix = waitKey(signal, 1).slice(0, -1);
  const waits = steps.filter(({ call }) => call.startsWith(prefix));
  const open = waits.find(({ state }) => state === "waiting");
  return open === undefined ? waits.length + 1 : Number(open.call.slice(prefix.length));
}
