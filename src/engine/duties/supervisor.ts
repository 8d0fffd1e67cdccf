/**
 * The supervisor of the duties of a process. Each duty has a loop of its own (duty-loop.ts), so one that hangs or fails
 * stops no other. The supervisor writes the document of quarantined items. A stop is bounded and returns the duties
 * that did not stop.
 *
 * The alarm: the store's answer to the promote duty has the time of the next clock of any job, and clock-answers.ts
 * decides which process answers it and when. If a clock is due that promoting did not serve, the duties of the other
 * clocks (leases, timeouts, deadlines) are woken. A duty that served a job wakes the promote duty again, which then
 * sees the next clock. So an idle store is asked once per interval and not once per duty, and no clock hides another.
 */
import { MillraceError } from "../../model/error.ts";
import { addPasses, idlePass } from "./duty.ts";
import type { Duty, DutyPass } from "./duty.ts";
import { dutyNames, oncePerStore } from "./duty-tuning.ts";
import { itemMaxMs } from "./quarantine.ts";
import { quarantinePut } from "./quarantine-document.ts";
import type { QuarantinedItem } from "./quarantine-document.ts";
import { DutyLoop } from "./duty-loop.ts";
import type { Needs } from "../services.ts";
import { MissingPartitions } from "../log/missing-partitions.ts";
import { answersWithin, settlesWithin } from "../calls/settles-within.ts";
import { ClockAnswers } from "../fleet/clock-answers.ts";

type SupervisorNeeds = Needs<
  "store" | "platform" | "log" | "ids" | "clocks" | "webhookDocs" | "leadership" | "heartbeat"
>;

const passesPerCallMax = 10_000;
/**
 * If no duty could serve a clock, it wakes them again only after this time. A lease that ends meanwhile is still
 * known within 2 s.
 */
const alarmAgainMs = 1500;

export class Supervisor {
  readonly #needs: SupervisorNeeds;
  readonly #loops: readonly DutyLoop[];
  readonly #docsLoop: DutyLoop | undefined;
  readonly #documentId: string;
  readonly #missing: MissingPartitions;
  /** Null in a process whose promote duty is switched off. */
  readonly #clockAnswers: ClockAnswers | null;
  #alarmAgainUs = 0;
  /** Records that no pass has counted yet. */
  #unreadable = 0;
  /** The content of the quarantine document in the store; null if that is not known. */
  #written: string | null = "[]";
  #toLog: readonly QuarantinedItem[] = [];
  #logging: Promise<void> | null = null;
  /** Functions that undo, at the stop, what the start has registered elsewhere. */
  readonly #leave: (() => void)[] = [];

  constructor(needs: SupervisorNeeds, duties: readonly Duty[]) {
    this.#needs = needs;
    this.#documentId = needs.ids.mint();
    this.#missing = new MissingPartitions(needs.store, needs.log);
    const clockDuty = duties.find(({ wakes }) => wakes === "clock");
    this.#clockAnswers =
      clockDuty === undefined ? null : new ClockAnswers(needs, clockDuty, () => this.#wake("clock", 0));
    this.#loops = duties.map(
      (duty) =>
        new DutyLoop(
          needs,
          duty === clockDuty ? (this.#clockAnswers?.duty ?? duty) : duty,
          (loop, pass) => this.#ended(loop, pass),
          () => this.#takeUnreadable(),
        ),
    );
    this.#docsLoop = this.#loops.find(({ duty }) => duty.servesDocs === true);
  }

  start(): void {
    const unwatch = this.#needs.store.watch((hint) => {
      if (hint.kind === "due") this.#heardClock(hint.inMs);
      else if (hint.kind === "promoted") this.#clockAnswers?.heardPromoted();
      else if (hint.kind === "unreadable") this.#metUnreadable(hint.count);
    });
    this.#leave.push(unwatch);
    const { clocks, webhookDocs } = this.#needs;
    this.#leave.push(clocks.nextRead.add(this.#clockRead), webhookDocs.changed.add(this.#hooksChanged));
    this.#clockAnswers?.start();
    for (const loop of this.#loops) loop.start();
    const { leadership, heartbeat } = this.#needs;
    leadership.isCandidate = oncePerStore.every((name) => this.dutyNames.includes(name));
    const led = (): void => {
      for (const loop of this.#loops)
        if (oncePerStore.some((name) => name === loop.duty.name)) loop.wakeIn(0);
    };
    this.#leave.push(leadership.whenGained(led));
    // A process without duties has a heartbeat only for its workers.
    if (this.#loops.length > 0)
      heartbeat.start(() => Object.fromEntries(this.#loops.map(({ duty, figures }) => [duty.name, figures])));
  }

  /** Runs passes of one duty until it has nothing more to do. @returns their sum. */
  async runToEnd(name: string): Promise<DutyPass> {
    const loop = this.#loops.find(({ duty }) => duty.name === name);
    if (loop === undefined) throw noSuchDuty(name);
    let total = idlePass;
    for (let pass = 0; pass < passesPerCallMax; pass++) {
      total = addPasses(total, await loop.duty.pass(true));
      if (!total.hasMore) break;
    }
    this.#logQuarantined();
    return total;
  }

  get dutyNames(): readonly string[] {
    return this.#loops.map(({ duty }) => duty.name);
  }

  /** @returns the names of the duties that did not stop within the grace. */
  async stop(graceMs: number): Promise<readonly string[]> {
    for (const leave of this.#leave.splice(0)) leave();
    this.#clockAnswers?.stop();
    const left = new Set(this.dutyNames);
    const stops = this.#loops.map((loop) => loop.stop().then(() => void left.delete(loop.duty.name)));
    await settlesWithin(this.#needs.platform, Promise.all(stops), graceMs);
    await settlesWithin(this.#needs.platform, this.#needs.heartbeat.stop(), graceMs);
    // The document of a stopped process is deleted: another process meets the same items and writes one of its own.
    if (this.#written !== "[]") this.#put([]);
    if (this.#logging !== null) await settlesWithin(this.#needs.platform, this.#logging, graceMs);
    return [...left];
  }

  /** Said when it is met; the index audit names the records. */
  #metUnreadable(count: number): void {
    this.#unreadable += count;
    this.#needs.log.error("records cannot be read and were kept apart", { count });
  }

  #takeUnreadable(): number {
    const met = this.#unreadable;
    this.#unreadable = 0;
    return met;
  }

  #ended(loop: DutyLoop, pass: DutyPass | null): void {
    this.#missing.look();
    this.#logQuarantined();
    if (pass === null) return;
    const { duty } = loop;
    const isPromoted = pass.processed > 0 || this.#clockAnswers?.isAnsweredUnheard === true;
    if (duty.wakes === "clock" && isPromoted) this.#needs.clocks.promoted.emit();
    if (pass.hasMore) return;
    const { nextInMs = null } = pass;
    if (duty.wakes === "clock") {
      if (nextInMs === null || nextInMs > 0) this.#alarmAgainUs = 0;
      else if (this.#clockAnswers?.mayAnswer === true) this.#alarm();
    } else if (duty.wakes === "alarm" && this.#clockAnswers === null) {
      // This process sets no alarm, so the duty wakes by the clocks that it sees itself.
      if (nextInMs !== null && nextInMs > 0) loop.wakeIn(nextInMs);
    } else if (loop === this.#docsLoop && this.#alarmAgainUs === 0) {
      // A hint of documents woke this duty, and no clock was hidden by them (see #heardClock).
      if (nextInMs !== null) this.#clockAnswers?.heardClock(nextInMs);
    } else if (duty.wakes === "alarm" && pass.processed > 0) {
      this.#alarmAgainUs = 0;
      this.#wake("clock", 0);
    }
  }

  /**
   * If a clock is due the moment it is written, it belongs to a document, because a due job would be ready. The leader
   * serves documents at once, without a look at other clocks.
   */
  #heardClock(inMs: number): void {
    const loop = this.#docsLoop;
    if (inMs > 0 || loop === undefined || this.#clockAnswers?.mayAnswer !== true)
      this.#clockAnswers?.heardClock(inMs);
    else loop.wakeIn(0);
  }

  /**
   * A heartbeat reads the next clock just as a pass of the promote duty does, so an idle process needs no such pass.
   */
  readonly #clockRead = (nextDueInMs: number | null): void => {
    // A due clock is most likely that of the documents being served now.
    if (nextDueInMs === 0 && this.#docsLoop?.isAtWork === true) return;
    if (nextDueInMs === 0) this.#clockAnswers?.foundDue();
    else {
      if (nextDueInMs !== null) this.#clockAnswers?.heardClock(nextDueInMs);
      this.#alarmAgainUs = 0;
    }
    for (const loop of this.#loops) if (loop.duty.wakes === "clock") loop.sleepOn();
  };

  readonly #hooksChanged = (): void => {
    for (const loop of this.#loops) if (loop.duty.name === "webhooks") loop.wakeIn(0);
  };

  #alarm(): void {
    const nowUs = this.#needs.platform.monotonicUs();
    if (nowUs < this.#alarmAgainUs) return;
    this.#alarmAgainUs = nowUs + alarmAgainMs * 1000;
    this.#wake("alarm", 0);
  }

  #wake(which: Duty["wakes"], inMs: number): void {
    for (const loop of this.#loops) if (loop.duty.wakes === which) loop.wakeIn(inMs);
  }

  #logQuarantined(): void {
    const { hostName, processId } = this.#needs.platform;
    const process = `${hostName}:${processId}`;
    const items = this.#loops.flatMap(({ duty, cases }) =>
      cases.map((each): QuarantinedItem => ({ duty: duty.name, ...each, process })),
    );
    if (JSON.stringify(items) !== this.#written) this.#put(items);
  }

  #put(items: readonly QuarantinedItem[]): void {
    this.#written = JSON.stringify(items);
    this.#toLog = items;
    this.#logging ??= this.#logQuarantine().finally(() => (this.#logging = null));
  }

  /**
   * Writes the document if it has changed, one write at a time. A failed write is repeated after the next pass of a
   * duty.
   */
  async #logQuarantine(): Promise<void> {
    const { store, platform, log } = this.#needs;
    for (let emitted: readonly QuarantinedItem[] | null = null; emitted !== this.#toLog;) {
      emitted = this.#toLog;
      try {
        const put = store.putDocs([quarantinePut(this.#documentId, emitted, platform.now())]);
        await answersWithin(platform, put, itemMaxMs);
      } catch (error) {
        this.#written = null;
        log.debug("the quarantined items could not be written", { error });
      }
    }
  }
}

function noSuchDuty(name: string): MillraceError {
  if (dutyNames.some((known) => known === name))
    return new MillraceError(
      "invalid-option",
      `The duty ${JSON.stringify(name)} is switched off in this process (open: duties); run it where it is on.`,
    );
  return new MillraceError(
    "invalid-option",
    `There is no duty ${JSON.stringify(name)}; known are ${dutyNames.join(", ")}.`,
  );
}
