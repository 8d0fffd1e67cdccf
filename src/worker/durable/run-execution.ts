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
import type { JournalCursor } from "../../model/durable/journal-cursor.ts";
import { keyInRound, ownKey } from "../../model/durable/journal-entry.ts";
import type { EntryBody, JournalEntry } from "../../model/durable/journal-entry.ts";
import { planRest } from "../../model/durable/rest-plan.ts";
import type { RestPlan } from "../../model/durable/rest-plan.ts";
import { SignalBuffer } from "../../model/durable/signal-buffer.ts";
import { decideEnd, endAfterUndos, endingOf, planUndos } from "../../model/durable/undo-plan.ts";
import type { Ending } from "../../model/durable/undo-plan.ts";
import type { Timer } from "../../platform/platform.ts";
import { decideWait } from "./decide-wait.ts";
import { JournalCalls } from "./journal-calls.ts";
import type { LiveCall, Settlement } from "./live-call.ts";
import type { JournalPage, RunJournal, Start } from "./run-journal.ts";
import type { RunEnd, RunSettings } from "./run-settings.ts";
import { settlementOf } from "./settlement-of.ts";

export class RunExecution {
  protected readonly cursor: JournalCursor<LiveCall>;
  protected readonly settings: RunSettings;
  protected readonly calls: JournalCalls;
  protected readonly signals = new SignalBuffer();
  /** Calls that have not settled, in the order in which they were asked for. */
  protected readonly open = new Map<string, LiveCall>();
  readonly #finished: (end: RunEnd) => void;
  /** Branches that have lost, but whose race is not recorded yet. */
  readonly #closing: string[] = [];
  #running = 0;
  #isTurnSet = false;
  /** A suspend may have been applied: another worker may run the job now, so nothing is delivered or started here. */
  #isSuspending = false;
  #isUndoing = false;
  /** No code of a step begins any more: the worker stops. */
  #isIntakeClosed = false;
  /** The attempt was aborted: nothing is delivered any more. */
  #isStopping = false;
  #isOver = false;
  #hasHandlerEnded = false;
  /** The handler did something since the last turn. */
  #isStirred = true;
  #quietUs = -1;
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
    this.cursor = cursor;
    this.settings = settings;
    this.#finished = finished;
    this.calls = new JournalCalls(journal, cursor, settings.platform, page, {
      isOver: () => this.#isOver,
      finish: (end) => this.finish(end),
      wake: () => this.wake(),
    });
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
      this.calls.unsurePatches += 1;
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
    return this.calls.storeNow;
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
    return [...this.cursor.entries, ...this.calls.unrecorded].some(
      ({ body }) => body.kind === "result" && body.hasUndo === true,
    );
  }

  /** The call whose recorded failure the handler threw on; undefined for an error of its own. */
  failedCall(error: unknown): LiveCall | undefined {
    return typeof error === "object" && error !== null ? this.#failures.get(error) : undefined;
  }

  /** A hint, or the answer to a renewal: the journal has grown, to this number if it is known. */
  heard(last = Number.POSITIVE_INFINITY): void {
    if (!this.#isOver && last > this.cursor.known) this.calls.heard();
  }

  /** The worker stops: the run rests as soon as it can, and no further step begins. */
  drain(): void {
    this.#isIntakeClosed = true;
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
    if (this.#running > 0 || this.calls.isInFlight) return;
    this.calls.pending = this.calls.pending.filter(
      ({ body }) => body.kind === "result" || body.kind === "patched",
    );
    this.calls.starts = [];
    if (this.calls.pending.length > 0) void this.calls.append();
    else this.finish({ kind: "stopped" });
  }

  #turn(): void {
    if (this.#isSuspending) return;
    const wasStirred = this.#isStirred;
    this.#isStirred = false;
    if (this.calls.unsurePatches > 0 && this.settings.isDry !== true) {
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
      if (this.#isIntakeClosed) this.stop();
      return;
    }
    if (this.settings.isDry === true) {
      this.finish({ kind: "continues" });
      return;
    }
    this.#decide();
    if (!this.#isIntakeClosed) this.#startWork();
    if (wasStirred) {
      this.#quietUs = this.settings.platform.monotonicUs();
      this.wake();
      if (this.#hasNews()) this.#flush();
      return;
    }
    if (this.#rest()) return;
    this.#flush();
    if (this.#isIntakeClosed && this.#running === 0 && !this.calls.isInFlight) this.stop();
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
      case "arrived":
      case "decided": {
        const numbers = body.kind === "arrived" ? [body.signal] : body.signals;
        const taken = numbers.map((number) => this.signals.take(number));
        return this.#settle(call, at, (asked) => settlementOf(body, asked, taken, codec));
      }
      case "child":
        if (body.isAnew === true) {
          if (call !== null) call.isOpened = false;
          return false;
        }
        return this.#settle(call, at, (asked) => settlementOf(body, asked, [], codec));
      case "rang":
      case "result":
      case "error":
        return this.#settle(call, at, (asked) => settlementOf(body, asked, [], codec));
      case "raced":
        if (call === null) return false;
        for (const [branch, prefix] of call.plan.branches ?? [])
          if (branch !== body.winner) this.#close(prefix);
        return this.#settle(call, at, (race) => race.ended.get(body.winner) as Settlement);
    }
  }

  #settle(call: LiveCall | null, at: number, settlement: (call: LiveCall) => Settlement): boolean {
    if (call === null || call.isSettled) return false;
    this.open.delete(call.key);
    this.cursor.felt(at);
    const settled = settlement(call);
    if (settled.kind === "error" && typeof settled.error === "object" && settled.error !== null)
      this.#failures.set(settled.error, call);
    call.settle(settled);
    return true;
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
    this.calls.pending.push({ key: ownKey(body, "call" in body ? this.cursor.lifeOf(body.call) : 0), body });
  }

  /** The call is made in a branch that has lost, although nothing says so yet. */
  protected isClosing(key: string): boolean {
    return this.#closing.some((prefix) => key.startsWith(prefix));
  }

  #decide(): void {
    const now = this.calls.storeNow;
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
        if (this.calls.slips.has(key) && call.running === null)
          this.decided(call, { kind: "result", call: key, as, value: this.calls.slips.get(key) ?? null });
        return;
      case "wait":
      case "approval":
        if (this.#takeSignals(call)) return;
        break;
      case "enqueue":
        if (plan.start === undefined) return;
        this.calls.starts.push(plan.start);
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
    const { signal, businessKey, endsInMs, endsAt, start } = plan;
    call.isOpened = true;
    if (endsAt !== undefined) call.wakeAt = endsAt;
    if (start !== undefined) this.calls.starts.push(start);
    this.record({
      ...{ kind: "opened", call: key, as },
      ...(signal === undefined ? {} : { signal }),
      ...(businessKey === undefined ? {} : { businessKey }),
      ...(endsInMs === undefined ? {} : { endsInMs }),
      ...(endsAt === undefined ? {} : { endsAt }),
    });
  }

  #escalates(call: LiveCall, escalation: Start): void {
    const { key, kind: as, plan } = call;
    call.isEscalated = true;
    // Until its entry is delivered the time is not over again.
    call.wakeAt = Infinity;
    this.calls.starts.push(escalation);
    this.record({ kind: "escalated", call: key, as, endsInMs: plan.endsInMs ?? 0 });
  }

  protected decided(call: LiveCall, body: EntryBody): void {
    call.isDecided = true;
    this.record(body);
  }

  /** @returns whether the signals that are there decide the wait. */
  #takeSignals(call: LiveCall): boolean {
    const { outcome, refused } = decideWait(call, this.signals, this.settings.codec);
    for (const body of refused) this.record(body);
    if (outcome !== null) this.decided(call, outcome);
    return outcome !== null;
  }

  // steps -------------------------------------------------------------------------------------------------------------

  #startWork(): void {
    const now = this.calls.storeNow;
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
    if (!this.calls.isInFlight) void this.calls.append();
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
    return this.calls.pending.some(({ body }) => body.kind !== "opened" && body.kind !== "version");
  }

  #flush(): void {
    if (this.calls.isInFlight || !this.calls.pending.some(({ body }) => body.kind !== "version")) return;
    void this.calls.append();
  }

  // resting -----------------------------------------------------------------------------------------------------------

  /** @returns whether the run rests, or is about to. */
  #rest(): boolean {
    if (this.#running > 0 || this.calls.isInFlight || this.#hasNews()) return false;
    const waits = [...this.open.values()].filter((call) => call.isWaiting && !this.isClosing(call.key));
    if (waits.length === 0) return false;
    const now = this.calls.storeNow;
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
    if (wakeInMs <= this.settings.lingerMs && !this.#isIntakeClosed) return false;
    const quietMs = (this.settings.platform.monotonicUs() - this.#quietUs) / 1000;
    if (quietMs < this.settings.idleMs && !this.#isIntakeClosed) {
      this.settings.platform.setTimer(this.settings.idleMs - quietMs, () => this.wake());
      return false;
    }
    void this.#suspend(rest);
    return true;
  }

  async #suspend(rest: RestPlan): Promise<void> {
    this.#isSuspending = true;
    // While undos run nothing is delivered any more.
    const kind = await this.calls.suspend(rest, this.#isUndoing ? this.cursor.known : this.cursor.seen);
    this.#isSuspending = false;
    if (kind === "suspended") this.finish({ kind });
    else if (kind === "arrived") await this.calls.readOn();
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
    await this.calls.untilAnswered();
    if (this.#isOver) return;
    this.calls.pending = this.calls.pending.filter(({ body }) => body.kind === "result");
    const journal = { hasUndo: this.hasUndo, ending: endingOf(this.cursor.entries) };
    if (decideEnd(ending, journal) === "append-ending") {
      const body = { kind: "ending", ...ending } as const;
      this.calls.pending.push({ key: keyInRound(body, this.settings.round), body });
      if (!(await this.calls.append())) return;
    }
    const first = endingOf(this.cursor.entries) ?? ending;
    for (;;) {
      if (this.#isStopping || this.#isIntakeClosed) {
        this.finish({ kind: "stopped" });
        return;
      }
      const { undos, hasGivenUp } = planUndos(this.cursor.entries);
      const [undo] = undos;
      if (undo === undefined) {
        this.finish({ kind: "ended", ending: endAfterUndos(first, hasGivenUp), error: this.#undoError });
        return;
      }
      if (undo.notBefore !== null && undo.notBefore > this.calls.storeNow) {
        const rest = { as: "scheduled", wake: { at: undo.notBefore } } as const;
        this.calls.pending = [];
        await this.#suspend(rest);
        if (this.#isOver) return;
        continue;
      }
      await this.#undoOne(undo.call, undo.value, undo.attempt + 1);
      if (!(await this.calls.append())) return;
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
    this.calls.pending = [];
    this.#timer?.timer.cancel();
    this.#unasked?.timer.cancel();
    this.#finished(end);
  }
}
