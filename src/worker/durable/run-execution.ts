/**
 * One stay of a durable run in this process: from the claim, through the replay of its journal, to its next rest or its
 * end.
 *
 *   replaying ──all delivered──► live ──nothing to do, something awaited──► suspended (its frames are abandoned)
 *       │                         │ └──the handler ends──────────────────► returned, threw
 *       │                         ├──an ending arrives───────────────────► undoing ──► ended, suspended
 *       │                         └──the attempt is aborted, or the worker stops─► stopped, suspended
 *       └──the code differs──► diverged
 *
 * A turn of the event loop delivers at most one entry that the handler feels. Whatever the handler learns comes from an
 * entry that is durable: a step's result, a wait's outcome and a race's winner are decided here, appended, and then
 * delivered in their place. So a crash loses no decision that anybody has seen, and no step's code starts on the
 * strength of one that is not durable. The only answer that comes at once is `patched`; until it is durable nothing is
 * delivered and no code starts.
 *
 * One append or suspend is in flight at a time.
 */
import { isMillraceError } from "../../model/error.ts";
import { decideApproval } from "../../model/durable/approval-decision.ts";
import type { Difference, JournalCursor } from "../../model/durable/journal-cursor.ts";
import { journalLimits, ownKey } from "../../model/durable/journal-entry.ts";
import type { EntryBody, JournalEntry, NewEntry } from "../../model/durable/journal-entry.ts";
import { planRest } from "../../model/durable/rest-plan.ts";
import type { RestPlan } from "../../model/durable/rest-plan.ts";
import { SignalBuffer } from "../../model/durable/signal-buffer.ts";
import type { UnreadSignal } from "../../model/durable/signal-buffer.ts";
import { decideEnd, endAfterUndos, endingOf, planUndos } from "../../model/durable/undo-plan.ts";
import type { Ending } from "../../model/durable/undo-plan.ts";
import type { Platform, Timer } from "../../platform/platform.ts";
import type { LiveCall, Settlement } from "./live-call.ts";
import type { JournalPage, RunJournal, Start } from "./run-journal.ts";

export type RunEnd =
  | { readonly kind: "returned"; readonly value: unknown }
  /** The handler threw, and the run may be tried again. */
  | { readonly kind: "threw"; readonly error: unknown }
  /** It ends badly, and its undos have run. */
  | { readonly kind: "ended"; readonly ending: Ending; readonly error: unknown }
  | { readonly kind: "suspended" }
  | { readonly kind: "continued"; readonly input: string }
  | { readonly kind: "diverged"; readonly difference: Difference }
  /** An entry was not asked for in time: the code is slow, or differs. */
  | { readonly kind: "unasked"; readonly difference: Difference }
  | { readonly kind: "journal-full" }
  /** Of a dry run: the code asks for all that the journal holds, and could go on. */
  | { readonly kind: "continues" }
  /** The lease is somebody else's: nothing is to be settled. */
  | { readonly kind: "lost" }
  /** It was asked to stop, and no code of a step runs any more. */
  | { readonly kind: "stopped" }
  /** What was recorded cannot be read here. */
  | { readonly kind: "unreadable"; readonly error: unknown }
  /** The store refuses a call, and would refuse its repeat. */
  | { readonly kind: "refused"; readonly error: unknown };

/** What is recorded of values, errors and signals. */
export interface RunCodec {
  encode(value: unknown): string | null;
  decode(text: string | null): unknown;
  encodeError(error: unknown): string;
  decodeError(text: string): unknown;
  /** What the schema makes of a signal, with its text: that of the signal if the schema changes nothing. */
  readSignal(
    name: string,
    text: string | null,
  ): { readonly value: unknown; readonly text: string | null } | { readonly refused: string };
}

export interface RunSettings {
  readonly platform: Pick<Platform, "defer" | "setTimer" | "monotonicUs">;
  readonly codec: RunCodec;
  readonly version: { readonly version: number; readonly isNew: boolean };
  /** A run whose handler awaits plain I/O between its steps is not suspended before it has been quiet for so long. */
  readonly idleMs: number;
  /** A run stays for a time that is over so soon. */
  readonly lingerMs: number;
  /** Replays and stops at the end of the journal: no code of a step runs and nothing is written. */
  readonly isDry?: true;
  /** How long an entry of the journal may not be asked for. */
  readonly unaskedMs: number;
  /** What becomes of a run whose handler threw. */
  readonly judge: (error: unknown) => "retry" | Ending;
  readonly undoDelayMs: (attempt: number, error: unknown) => number | null;
  /** Observes the run; left out for nobody. */
  readonly observer?: RunObserver;
}

/** Sees what the run does in this life, and nothing of what is replayed. */
export interface RunObserver {
  /** Calls the code of a step. */
  step<Value>(call: LiveCall, attempt: number, work: () => Promise<Value>): Promise<Value>;
  /** An entry is about to be appended. */
  recorded(body: EntryBody): void;
}

const repeatMs = 100;
const repeatMaxMs = 5000;

export class RunExecution {
  protected readonly cursor: JournalCursor<LiveCall>;
  protected readonly settings: RunSettings;
  protected readonly signals = new SignalBuffer();
  /** Calls that have not settled, in the order in which they were asked for. */
  protected readonly open = new Map<string, LiveCall>();
  /** What is to be appended with the next call. */
  protected pending: NewEntry[] = [];
  readonly #journal: RunJournal;
  readonly #slips = new Map<string, string | null>();
  readonly #finished: (end: RunEnd) => void;
  #starts: Start[] = [];
  /** Branches that have lost, but whose race is not recorded yet. */
  readonly #closing: string[] = [];
  #running = 0;
  #unsurePatches = 0;
  #isInFlight = false;
  #isTurnSet = false;
  /** A suspend may have been applied: another worker may run the job now, so nothing is delivered or started here. */
  #isSuspending = false;
  #isUndoing = false;
  /** No code of a step begins any more: the worker stops. */
  #isDraining = false;
  /** The attempt was aborted: nothing is delivered any more. */
  #isStopping = false;
  #isReading = false;
  #isHeard = false;
  #isOver = false;
  #hasHandlerEnded = false;
  /** The handler did something since the last turn. */
  #isStirred = true;
  #quietUs = -1;
  #storeNow: number;
  #storeNowUs: number;
  #timer: { readonly at: number; readonly timer: Timer } | null = null;
  #unasked: { readonly number: number; readonly timer: Timer } | null = null;
  #undoError: unknown = null;
  /** The calls of which the handler got these errors. */
  readonly #failures = new WeakMap<object, LiveCall>();

  constructor(
    journal: RunJournal,
    cursor: JournalCursor<LiveCall>,
    settings: RunSettings,
    page: JournalPage,
    finished: (end: RunEnd) => void,
  ) {
    this.#journal = journal;
    this.cursor = cursor;
    this.settings = settings;
    this.#finished = finished;
    this.#storeNow = page.now;
    this.#storeNowUs = settings.platform.monotonicUs();
    this.#take(page);
    cursor.begins();
    if (settings.version.isNew) this.record({ kind: "version", version: settings.version.version });
  }

  /** Calls the handler. */
  begin(handle: () => Promise<unknown>): void {
    void handle().then(
      (value) => this.#handlerEnded({ kind: "returned", value }),
      (error: unknown) => this.#handlerEnded({ kind: "threw", error }),
    );
    this.wake();
  }

  get isOver(): boolean {
    return this.#isOver || this.#isUndoing;
  }

  get hasHandlerEnded(): boolean {
    return this.#hasHandlerEnded;
  }

  /** Epoch milliseconds for the handler: the time of the last entry that was delivered. */
  get now(): number {
    return this.cursor.now;
  }

  ask(call: LiveCall): void {
    // Code of a branch that has lost its race goes on until its next call, which never answers.
    if (this.cursor.isClosed(call.key)) return;
    this.open.set(call.key, call);
    this.#isStirred = true;
    const difference = this.cursor.ask(call);
    if (difference === null) this.wake();
    else this.finish({ kind: "diverged", difference });
  }

  patched(name: string): boolean {
    const { answer, isNew } = this.cursor.patched(name);
    if (isNew) {
      this.record({ kind: "patched", name, answer });
      this.#unsurePatches += 1;
      this.wake();
    }
    return answer;
  }

  /** A branch of a race has ended. */
  branchEnded(call: LiveCall, branch: string, settlement: Settlement): void {
    if (call.isSettled || this.isOver) return;
    call.ended.set(branch, settlement);
    this.wake();
  }

  /** The store's time as far as it is known here. */
  get storeTime(): number {
    return this.storeNow;
  }

  /** @param input as it is stored. */
  continueWith(input: string): void {
    if (this.isOver) return;
    this.#hasHandlerEnded = true;
    const difference = this.cursor.leftBehind();
    this.finish(difference === null ? { kind: "continued", input } : { kind: "diverged", difference });
  }

  /** The handler is told what an earlier life has told it already. */
  get isReplaying(): boolean {
    return this.cursor.isReplaying;
  }

  lifeOf(call: string): number {
    return this.cursor.lifeOf(call);
  }

  /** The last number of the journal that is known here. */
  get known(): number {
    return this.cursor.known;
  }

  /** It is to end badly, and its undos run. */
  get isEnding(): boolean {
    return this.#isUndoing || endingOf(this.cursor.entries) !== null;
  }

  /** A step was recorded, or has ended, that a bad end would have to undo. */
  get hasUndo(): boolean {
    return [...this.cursor.entries, ...this.pending].some(
      ({ body }) => body.kind === "result" && body.hasUndo === true,
    );
  }

  /** The call whose recorded failure the handler threw on; undefined for an error of its own. */
  failedCall(error: unknown): LiveCall | undefined {
    return typeof error === "object" && error !== null ? this.#failures.get(error) : undefined;
  }

  /** A hint, or the answer to a renewal: the journal has grown, to this number if it is known. */
  heard(last = Number.POSITIVE_INFINITY): void {
    if (this.#isOver || last <= this.cursor.known) return;
    this.#isHeard = true;
    if (!this.#isReading) void this.#readOn();
  }

  /** The worker stops: the run rests as soon as it can, and no further step begins. */
  drain(): void {
    this.#isDraining = true;
    this.#isStirred = true;
    this.wake();
  }

  /** The attempt was aborted: the code of its steps is told so, and once it has ended, so has this stay. */
  stop(): void {
    if (this.#isStopping || this.#isOver) return;
    this.#isStopping = true;
    for (const call of this.open.values()) call.running?.abort();
    this.wake();
  }

  /** The lease is lost: nothing more is done here. */
  abandon(): void {
    this.finish({ kind: "lost" });
  }

  // turns -------------------------------------------------------------------------------------------------------------

  protected wake(): void {
    if (this.#isTurnSet || this.#isOver) return;
    this.#isTurnSet = true;
    this.settings.platform.defer(() => {
      this.#isTurnSet = false;
      if (this.#isOver || this.#isUndoing) return;
      try {
        if (this.#isStopping) this.#endStopping();
        else this.#turn();
      } catch (error) {
        // A recorded value whose key this process lacks, or a text that is damaged.
        this.finish({ kind: "unreadable", error });
      }
    });
  }

  /** What the last steps have done is recorded first, because their code must not run again. */
  #endStopping(): void {
    if (this.#running > 0 || this.#isInFlight) return;
    this.pending = this.pending.filter(({ body }) => body.kind === "result" || body.kind === "patched");
    this.#starts = [];
    if (this.pending.length > 0) void this.append();
    else this.finish({ kind: "stopped" });
  }

  #turn(): void {
    if (this.#isSuspending) return;
    const wasStirred = this.#isStirred;
    this.#isStirred = false;
    if (this.#unsurePatches > 0 && this.settings.isDry !== true) {
      this.#flush();
      return;
    }
    if (this.deliverNext()) {
      this.#isStirred = true;
      this.wake();
      return;
    }
    if (this.#isUndoing || this.#isOver) return;
    if (!this.cursor.isCaughtUp) {
      if (this.#isDraining) this.stop();
      return;
    }
    if (this.settings.isDry === true) {
      this.finish({ kind: "continues" });
      return;
    }
    this.#decide();
    if (!this.#isDraining) this.#startWork();
    if (wasStirred) {
      this.#quietUs = this.settings.platform.monotonicUs();
      this.wake();
      if (this.#hasNews()) this.#flush();
      return;
    }
    if (this.#rest()) return;
    this.#flush();
    if (this.#isDraining && this.#running === 0 && !this.#isInFlight) this.stop();
  }

  /** Delivers entries up to one that the handler feels. @returns whether it felt one. */
  protected deliverNext(): boolean {
    for (;;) {
      const next = this.cursor.next();
      if (next.kind === "caught-up") return false;
      if (next.kind === "unasked") {
        this.#watchUnasked(next.entry);
        return false;
      }
      const { entry, call } = next;
      if (entry.body.kind === "raced" && call !== null && !call.ended.has(entry.body.winner)) {
        this.#watchUnasked(entry);
        return false;
      }
      this.cursor.delivered();
      this.#unasked?.timer.cancel();
      this.#unasked = null;
      if (this.apply(entry, call)) return true;
      if (this.#isUndoing) return false;
    }
  }

  /** @returns whether the handler feels it. */
  protected apply({ body, at }: JournalEntry, call: LiveCall | null): boolean {
    const { codec } = this.settings;
    switch (body.kind) {
      case "signal":
        this.signals.add(this.cursor.entry(this.cursor.seen) as JournalEntry);
        return false;
      case "refused":
        this.signals.take(body.signal);
        return false;
      case "ending":
        if (this.settings.isDry !== true) void this.#undo(body, null);
        return false;
      case "version":
      case "patched":
      case "undone":
      case "stuck":
      case "gave-up":
      case "over":
        return false;
      case "opened":
        if (call !== null) {
          call.isOpened = true;
          call.wakeAt = body.endsAt ?? (body.endsInMs === undefined ? null : at + body.endsInMs);
        }
        return false;
      case "escalated":
        if (call !== null) {
          call.isEscalated = true;
          call.wakeAt = at + body.endsInMs;
        }
        return false;
      case "failed":
        if (call !== null) {
          call.attempt = body.attempt;
          call.wakeAt = at + body.retryInMs;
        }
        return false;
      case "arrived": {
        const signal = this.signals.take(body.signal);
        return this.#settle(call, at, () => ({
          kind: "value",
          value: this.#arrivedValue(call as LiveCall, signal, body.value),
        }));
      }
      case "decided": {
        const { values } = body;
        const answers = body.signals.map((number) => this.signals.take(number));
        return this.#settle(call, at, () => ({
          kind: "value",
          value: {
            approved: body.approved,
            timedOut: false,
            answers: answers.flatMap((each, index) =>
              each === undefined ? [] : [this.#answerOf(each, values?.[index])],
            ),
          },
        }));
      }
      case "rang":
        return this.#settle(call, at, () => call?.plan.rang?.() ?? { kind: "value", value: undefined });
      case "result":
        return this.#settle(call, at, () => ({ kind: "value", value: codec.decode(body.value) }));
      case "error":
        return this.#settle(call, at, () => this.#failure(call, body.error));
      case "child":
        return this.#settle(call, at, () =>
          body.state === "completed"
            ? { kind: "value", value: codec.decode(body.value) }
            : this.#failure(
                call,
                body.value ?? codec.encodeError(new Error(`The job ended as ${body.state}.`)),
              ),
        );
      case "raced":
        if (call === null) return false;
        for (const [branch, prefix] of call.plan.branches ?? [])
          if (branch !== body.winner) this.#close(prefix);
        return this.#settle(call, at, () => call.ended.get(body.winner) as Settlement);
    }
  }

  #settle(call: LiveCall | null, at: number, settlement: () => Settlement): boolean {
    if (call === null || call.isSettled) return false;
    this.open.delete(call.key);
    this.cursor.felt(at);
    const settled = settlement();
    if (settled.kind === "error" && typeof settled.error === "object" && settled.error !== null)
      this.#failures.set(settled.error, call);
    call.settle(settled);
    return true;
  }

  #failure(call: LiveCall | null, text: string): Settlement {
    const cause = this.settings.codec.decodeError(text);
    return { kind: "error", error: call?.plan.failed?.(cause) ?? cause };
  }

  #arrivedValue(call: LiveCall, signal: UnreadSignal | undefined, made?: string | null): unknown {
    if (signal === undefined) return undefined;
    const value = this.#takenValue(signal, made);
    return call.plan.arrived?.(signal, value) ?? value;
  }

  #answerOf(signal: UnreadSignal, made?: string | null): { source: string | null; at: Date; value: unknown } {
    return {
      source: signal.source,
      at: new Date(signal.at),
      value: this.#takenValue(signal, made),
    };
  }

  /**
   * A schema reads a signal once, when a wait takes it. A replay hands out the same, whatever became of the schema.
   * @param made what the schema made of it; undefined if it changed nothing.
   */
  #takenValue({ value }: UnreadSignal, made?: string | null): unknown {
    return this.settings.codec.decode(made === undefined ? value : made);
  }

  #close(prefix: string): void {
    this.cursor.close(prefix);
    for (const [key, call] of this.open)
      if (key.startsWith(prefix)) {
        call.running?.abort();
        this.open.delete(key);
      }
  }

  // decisions ---------------------------------------------------------------------------------------------------------

  protected record(body: EntryBody): void {
    this.settings.observer?.recorded(body);
    this.pending.push({ key: ownKey(body, "call" in body ? this.cursor.lifeOf(body.call) : 0), body });
  }

  /** The call is made in a branch that has lost, although nothing says so yet. */
  protected isClosing(key: string): boolean {
    return this.#closing.some((prefix) => key.startsWith(prefix));
  }

  #decide(): void {
    const now = this.storeNow;
    for (const call of this.open.values()) {
      if (call.isDecided || this.isClosing(call.key)) continue;
      this.decideCall(call, now);
    }
  }

  protected decideCall(call: LiveCall, now: number): void {
    const { key, kind: as, plan } = call;
    const isOver = call.wakeAt !== null && call.wakeAt <= now;
    switch (as) {
      case "race": {
        const [winner] = call.ended.keys();
        if (winner === undefined) return;
        this.decided(call, { kind: "raced", call: key, as, winner });
        for (const [branch, prefix] of plan.branches ?? []) {
          if (branch === winner) continue;
          this.#closing.push(prefix);
          for (const other of this.open.values()) if (other.key.startsWith(prefix)) other.running?.abort();
        }
        return;
      }
      case "run-in":
        if (this.#slips.has(key) && call.running === null)
          this.decided(call, { kind: "result", call: key, as, value: this.#slips.get(key) ?? null });
        return;
      case "wait":
        if (this.#takeSignal(call)) return;
        break;
      case "approval":
        if (this.#takeAnswers(call)) return;
        break;
      case "enqueue":
        if (plan.start === undefined) return;
        this.#starts.push(plan.start);
        this.decided(call, {
          kind: "result",
          call: key,
          as,
          value: this.settings.codec.encode(plan.start.id),
        });
        return;
      case "sleep":
      case "invoke":
        break;
      case "run":
      case "each":
        return;
    }
    if (isOver && plan.escalation !== undefined && !call.isEscalated) this.#escalates(call, plan.escalation);
    else if (isOver) this.decided(call, { kind: "rang", call: key, as });
    else if (!call.isOpened) this.#opens(call);
  }

  #opens(call: LiveCall): void {
    const { key, kind: as, plan } = call;
    const { signal, endsInMs, endsAt, start } = plan;
    call.isOpened = true;
    if (endsAt !== undefined) call.wakeAt = endsAt;
    if (start !== undefined) this.#starts.push(start);
    this.record({
      ...{ kind: "opened", call: key, as },
      ...(signal === undefined ? {} : { signal }),
      ...(endsInMs === undefined ? {} : { endsInMs }),
      ...(endsAt === undefined ? {} : { endsAt }),
    });
  }

  #escalates(call: LiveCall, escalation: Start): void {
    const { key, kind: as, plan } = call;
    call.isEscalated = true;
    // Until its entry is delivered the time is not over again.
    call.wakeAt = Infinity;
    this.#starts.push(escalation);
    this.record({ kind: "escalated", call: key, as, endsInMs: plan.endsInMs ?? 0 });
  }

  protected decided(call: LiveCall, body: EntryBody): void {
    call.isDecided = true;
    this.record(body);
  }

  #takeSignal(call: LiveCall): boolean {
    const { key, kind: as, plan } = call;
    for (const { signal, value, text } of this.#readable(call)) {
      try {
        if (plan.where !== undefined && !plan.where(value)) continue;
      } catch (error) {
        this.decided(call, { kind: "error", call: key, as, error: this.settings.codec.encodeError(error) });
        return true;
      }
      this.signals.take(signal.number);
      const made = text === signal.value ? {} : { value: text };
      this.decided(call, { kind: "arrived", call: key, as, signal: signal.number, ...made });
      return true;
    }
    return false;
  }

  #takeAnswers(call: LiveCall): boolean {
    const { key, kind: as, plan } = call;
    const read = this.#readable(call);
    let decision: ReturnType<typeof decideApproval>;
    try {
      const answers = read.map(({ signal, value }) => ({ ...signal, approves: plan.where?.(value) ?? true }));
      decision = decideApproval(answers, plan.needed ?? 1);
    } catch (error) {
      this.decided(call, { kind: "error", call: key, as, error: this.settings.codec.encodeError(error) });
      return true;
    }
    if (decision.kind === "open") return false;
    const { signals, approved } = decision;
    for (const number of signals) this.signals.take(number);
    const taken = signals.map((number) => read.find(({ signal }) => signal.number === number));
    const isMade = taken.some((each) => each?.text !== each?.signal.value);
    const made = isMade ? { values: taken.map((each) => each?.text ?? null) } : {};
    this.decided(call, { kind: "decided", call: key, as, signals, approved, ...made });
    return true;
  }

  /** The signals that a wait may take, with their values. Those of the wrong shape are refused once and for all. */
  #readable(
    call: LiveCall,
  ): { readonly signal: UnreadSignal; readonly value: unknown; readonly text: string | null }[] {
    const name = call.plan.signal ?? "";
    return this.signals.unreadFor(name, call.key, call.wakeAt).flatMap((signal) => {
      const read = this.settings.codec.readSignal(name, signal.value);
      if ("value" in read) return [{ signal, ...read }];
      this.signals.take(signal.number);
      this.record({ kind: "refused", signal: signal.number, why: read.refused });
      return [];
    });
  }

  // steps -------------------------------------------------------------------------------------------------------------

  #startWork(): void {
    const now = this.storeNow;
    for (const call of this.open.values()) {
      const { work } = call.plan;
      if (work === undefined || call.isDecided || call.running !== null || this.isClosing(call.key)) continue;
      if (call.wakeAt !== null && call.wakeAt > now) continue;
      if (call.kind === "run-in" && this.cursor.known === 0) {
        this.#beginJournal();
        continue;
      }
      call.wakeAt = null;
      call.running = new AbortController();
      this.#running += 1;
      void this.#work(call, work, call.running.signal);
    }
  }

  /** The next worker of a run looks for what \`runIn\` has committed only if the journal has an entry: the version. */
  #beginJournal(): void {
    if (!this.#isInFlight) void this.append();
  }

  async #work(
    call: LiveCall,
    work: NonNullable<LiveCall["plan"]["work"]>,
    signal: AbortSignal,
  ): Promise<void> {
    const attempt = call.attempt + 1;
    const { codec } = this.settings;
    const { key, kind: as } = call;
    let body: EntryBody;
    try {
      const { observer } = this.settings;
      const value =
        observer === undefined
          ? await work(attempt, signal)
          : await observer.step(call, attempt, () => work(attempt, signal));
      body = this.#resultOf(call, value);
    } catch (error) {
      const text = codec.encodeError(error);
      const retryInMs = call.plan.retryDelayMs?.(attempt, error) ?? null;
      body =
        retryInMs === null
          ? { kind: "error", call: key, as, error: text }
          : { kind: "failed", call: key, as, attempt, error: text, retryInMs };
    }
    this.#running -= 1;
    call.running = null;
    // An abort is no failure of the step: its code runs again.
    const isStopped = this.#isStopping && body.kind !== "result";
    if (isStopped || this.isOver || this.isClosing(key) || this.cursor.isClosed(key)) {
      this.wake();
      return;
    }
    this.stepEnded(call, body);
    this.wake();
  }

  /** A value that cannot be encoded fails the step for good: its code has done its work, and must not do it again. */
  #resultOf({ key, kind: as, plan }: LiveCall, value: unknown): EntryBody {
    const { codec } = this.settings;
    try {
      const hasUndo = plan.undo === undefined ? {} : { hasUndo: true as const };
      return { kind: "result", call: key, as, value: codec.encode(value), ...hasUndo };
    } catch (error) {
      return { kind: "error", call: key, as, error: codec.encodeError(error) };
    }
  }

  protected stepEnded(call: LiveCall, body: EntryBody): void {
    if (body.kind === "failed") {
      // Until its entry is delivered the step does not run.
      call.wakeAt = Infinity;
      this.record(body);
    } else this.decided(call, body);
  }

  // the journal -------------------------------------------------------------------------------------------------------

  /** Something is to be appended that the handler, or a step, waits for. */
  #hasNews(): boolean {
    return this.pending.some(({ body }) => body.kind !== "opened" && body.kind !== "version");
  }

  /** The store's time as far as it is known here, never ahead of it. */
  protected get storeNow(): number {
    return this.#storeNow + Math.floor((this.settings.platform.monotonicUs() - this.#storeNowUs) / 1000);
  }

  #hears(now: number): void {
    if (now <= this.storeNow) return;
    this.#storeNow = now;
    this.#storeNowUs = this.settings.platform.monotonicUs();
  }

  #flush(): void {
    if (this.#isInFlight || !this.pending.some(({ body }) => body.kind !== "version")) return;
    void this.append();
  }

  /** @returns false if the run is over. */
  protected async append(): Promise<boolean> {
    const { pending } = this;
    const starts = this.#starts;
    this.pending = [];
    this.#starts = [];
    const isEnding = pending.some(
      ({ body }) => body.kind === "undone" || body.kind === "stuck" || body.kind === "ending",
    );
    const most = isEnding ? journalLimits.endingEntriesMax : journalLimits.entriesMax;
    const isTooLarge = !isEnding && this.cursor.bytes > journalLimits.bytesMax;
    if (isTooLarge || this.cursor.known + pending.length > most) {
      this.finish({ kind: "journal-full" });
      return false;
    }
    this.#isInFlight = true;
    const { answer, isRepeat } = await this.#persist(() => this.#journal.append(pending, starts));
    this.#isInFlight = false;
    if (this.#isOver) return false;
    if (answer.kind === "stale") {
      this.finish({ kind: "lost" });
      return false;
    }
    const { known } = this.cursor;
    if (!isRepeat && answer.isRepeat !== true && answer.last === known + pending.length)
      this.cursor.add(
        pending.map((entry, index) => ({ ...entry, number: known + 1 + index, at: answer.at })),
      );
    else if (answer.last > known) await this.#readOn();
    this.#hears(answer.at);
    this.#unsurePatches -= pending.filter(({ body }) => body.kind === "patched").length;
    this.wake();
    return !this.#isOver;
  }

  async #readOn(): Promise<void> {
    this.#isReading = true;
    this.#isHeard = false;
    const { answer } = await this.#persist(() => this.#journal.read(this.cursor.known));
    this.#isReading = false;
    if (this.#isOver) return;
    if (answer.kind === "stale") {
      this.finish({ kind: "lost" });
      return;
    }
    this.#take(answer);
    this.wake();
    // Whatever came while the read was on its way may not be in its answer.
    if (this.#isHeard) await this.#readOn();
  }

  #take({ entries, slips, now }: JournalPage): void {
    this.cursor.add(entries);
    for (const { call, value } of slips) this.#slips.set(call, value);
    this.#hears(now);
  }

  /** Repeats a call whose reply was lost, until it is answered or the lease is. */
  async #persist<Answer>(call: () => Promise<Answer>): Promise<{ answer: Answer; isRepeat: boolean }> {
    for (let tries = 0; ; tries += 1) {
      try {
        return { answer: await call(), isRepeat: tries > 0 };
      } catch (error) {
        if (isMillraceError(error) && !error.retryable && error.outcome !== "unknown")
          this.finish({ kind: "refused", error });
        // The caller was abandoned with the run, so nobody reads the answer.
        if (this.#isOver) return new Promise(() => undefined);
        const delayMs = Math.min(repeatMs * 2 ** Math.min(tries, 10), repeatMaxMs);
        await new Promise<void>((resolve) => this.settings.platform.setTimer(delayMs, resolve));
      }
    }
  }

  // resting -----------------------------------------------------------------------------------------------------------

  /** @returns whether the run rests, or is about to. */
  #rest(): boolean {
    if (this.#running > 0 || this.#isInFlight || this.#hasNews()) return false;
    const waits = [...this.open.values()].filter((call) => call.isWaiting && !this.isClosing(call.key));
    if (waits.length === 0) return false;
    const now = this.storeNow;
    const rest = planRest(
      waits.map(({ kind, wakeAt, plan }) => ({
        kind,
        wakeAt,
        endsInMs: wakeAt === null ? (plan.endsInMs ?? null) : null,
      })),
      now,
    );
    const wakeInMs = rest.wake === null ? Infinity : "at" in rest.wake ? rest.wake.at - now : rest.wake.inMs;
    this.#setTimer(waits, now);
    if (wakeInMs <= this.settings.lingerMs && !this.#isDraining) return false;
    const quietMs = (this.settings.platform.monotonicUs() - this.#quietUs) / 1000;
    if (quietMs < this.settings.idleMs && !this.#isDraining) {
      this.settings.platform.setTimer(this.settings.idleMs - quietMs, () => this.wake());
      return false;
    }
    void this.suspend(rest);
    return true;
  }

  protected async suspend(rest: RestPlan): Promise<void> {
    const { pending } = this;
    const starts = this.#starts;
    this.#isInFlight = true;
    this.#isSuspending = true;
    // While undos run nothing is delivered any more.
    const seen = this.#isUndoing ? this.cursor.known : this.cursor.seen;
    const request = { seen, entries: pending, starts, rest };
    const { answer } = await this.#persist(() => this.#journal.suspend(request));
    this.#isInFlight = false;
    this.#isSuspending = false;
    if (this.#isOver) return;
    if (answer.kind === "suspended") this.finish({ kind: "suspended" });
    else if (answer.kind === "stale") this.finish({ kind: "lost" });
    else await this.#readOn();
    this.wake();
  }

  /** Times that are over while the run stays: for a step that runs, or because they are over soon. */
  #setTimer(waits: readonly LiveCall[], now: number): void {
    const earliest = Math.min(...waits.map(({ wakeAt }) => wakeAt ?? Infinity));
    if (earliest === Infinity || this.#timer?.at === earliest) return;
    this.#timer?.timer.cancel();
    const timer = this.settings.platform.setTimer(Math.max(0, earliest - now), () => {
      this.#timer = null;
      this.wake();
    });
    this.#timer = { at: earliest, timer };
  }

  #watchUnasked(entry: JournalEntry): void {
    if (this.#unasked?.number === entry.number) return;
    this.#unasked?.timer.cancel();
    const timer = this.settings.platform.setTimer(this.settings.unaskedMs, () => {
      const open = [...this.open.values()];
      this.finish({ kind: "unasked", difference: this.cursor.differenceAt(entry, open) });
    });
    this.#unasked = { number: entry.number, timer };
  }

  // the end -----------------------------------------------------------------------------------------------------------

  #handlerEnded(end: Extract<RunEnd, { readonly kind: "returned" | "threw" }>): void {
    if (this.isOver) return;
    this.#hasHandlerEnded = true;
    const difference = this.cursor.leftBehind();
    if (difference !== null) {
      this.finish({ kind: "diverged", difference });
      return;
    }
    const asked = endingOf(this.cursor.entries);
    if (asked !== null) {
      void this.#undo(asked, end.kind === "threw" ? end.error : null);
      return;
    }
    if (end.kind === "returned") {
      this.finish(end);
      return;
    }
    const ending = this.settings.judge(end.error);
    if (ending === "retry") this.finish(end);
    else void this.#undo(ending, end.error);
  }

  /** Results that were about to be recorded are recorded first, so that they are undone as well. */
  async #undo(ending: Ending, error: unknown): Promise<void> {
    if (this.isOver) return;
    this.#isUndoing = true;
    this.#undoError = error;
    for (const call of this.open.values()) call.running?.abort();
    while (this.#isInFlight)
      await new Promise<void>((resolve) => this.settings.platform.defer(() => resolve()));
    if (this.#isOver) return;
    this.pending = this.pending.filter(({ body }) => body.kind === "result");
    const journal = { hasUndo: this.hasUndo, ending: endingOf(this.cursor.entries) };
    if (decideEnd(ending, journal) === "append-ending") {
      this.pending.push({ key: "ending", body: { kind: "ending", ...ending } });
      if (!(await this.append())) return;
    }
    const first = endingOf(this.cursor.entries) ?? ending;
    for (;;) {
      if (this.#isStopping || this.#isDraining) {
        this.finish({ kind: "stopped" });
        return;
      }
      const { undos, hasGivenUp } = planUndos(this.cursor.entries);
      const [undo] = undos;
      if (undo === undefined) {
        this.finish({ kind: "ended", ending: endAfterUndos(first, hasGivenUp), error: this.#undoError });
        return;
      }
      if (undo.notBefore !== null && undo.notBefore > this.storeNow) {
        const rest = { as: "scheduled", wake: { at: undo.notBefore } } as const;
        this.pending = [];
        await this.suspend(rest);
        if (this.#isOver) return;
        continue;
      }
      await this.#undoOne(undo.call, undo.value, undo.attempt + 1);
      if (!(await this.append())) return;
    }
  }

  async #undoOne(key: string, value: string | null, attempt: number): Promise<void> {
    const call = this.cursor.call(key);
    const as = call?.kind ?? "run";
    try {
      if (call?.plan.undo === undefined)
        throw new Error("The handler has no such step any more, or it has no undo.");
      await call.plan.undo(this.settings.codec.decode(value));
      this.record({ kind: "undone", call: key, as });
    } catch (error) {
      const retryInMs = call?.plan.undo === undefined ? null : this.settings.undoDelayMs(attempt, error);
      const text = this.settings.codec.encodeError(error);
      this.record({ kind: "stuck", call: key, as, attempt, error: text, retryInMs });
    }
  }

  /** Nothing refers to the handler's frames from here on. */
  protected finish(end: RunEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const call of this.open.values()) call.running?.abort();
    this.open.clear();
    this.pending = [];
    this.#timer?.timer.cancel();
    this.#unasked?.timer.cancel();
    this.#finished(end);
  }
}
