/**
 * Sends hints to other processes as payloads of NOTIFY. They are merged and sent after the answer of their calls,
 * because a NOTIFY inside the transaction would serialise commits. Only the submit of one job in a quiet process sends
 * its hint inside its own call (jobs/submit-one.sql.ts). If a hint cannot be sent, the polls of the other processes
 * find the change.
 *
 *  payload   {"by": sender, "r": routes, "d": due in ms, "p": true, "k": routes, "f": finished ids,
 *             "c": [[id, owner]], "s": [[id, owner]], "w": ids, "t": true, "more": true}
 *            p: due jobs were promoted; k: all jobs that were ready there are claimed; c: running jobs
 *            whose cancel was asked for; s: those whose journal has grown; w: those that have written output; t: the
 *            feed has grown; more: look at the feed for hints
 */
import type { Platform } from "../../../platform/platform.ts";
import { emptyHints, hintDue, isEmpty } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";

const sendGapMs = 15;
/**
 * The least time between two messages that do not wait for the gap, because a job has ended. A short job often ends
 * within the gap after its submit, so a message about its end would be late. The time is shorter if the end lets other
 * jobs start: it has given back a permit, or the job was a member of a flow.
 */
const hurryGapMs = { ends: 50, frees: 10 };
const idsMax = 250;
/** Postgres takes payloads below 8,000 bytes. */
const payloadBytesMax = 7500;

interface Payload {
  readonly by?: string;
  readonly r?: number[];
  readonly d?: number;
  readonly o?: boolean;
  readonly p?: boolean;
  readonly k?: number[];
  readonly b?: boolean;
  readonly f?: string[];
  readonly c?: [id: string, owner: string][];
  readonly s?: [id: string, owner: string][];
  readonly w?: string[];
  readonly t?: boolean;
  readonly more?: boolean;
}

/** The turn of a call that notifies the other processes itself. */
export interface Ride {
  readonly by: string;
  over(isAnnounced: boolean): void;
}

export interface Announcer {
  emit(hints: Hints): void;
  /** Notes that a claim, sent at this monotonic time, has taken all ready jobs of these routes. */
  announceTaken(routes: readonly number[], sentUs: number): void;
  /** Null while something is being sent, or was a moment ago. */
  ride(): Ride | null;
  /** Sends the remaining hints, without waiting for the gap. */
  close(): Promise<void>;
}

export interface AnnouncerOptions {
  readonly platform: Platform;
  /** The name of this process in its messages, by which it ignores its own. */
  readonly sender: string;
  readonly notify: (payload: string) => Promise<unknown>;
}

export function openAnnouncer({ platform, sender, notify }: AnnouncerOptions): Announcer {
  let outgoing = emptyHints();
  /** When a job of each outgoing route was last announced as ready. */
  const readyUs = new Map<number, number>();
  let isSending = false;
  let isClosed = false;
  /** Ends the gap. */
  let hurry: (() => void) | null = null;
  let hurriedUs = Number.NEGATIVE_INFINITY;

  const pause = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      const timer = platform.setTimer(sendGapMs, resolve, false);
      hurry = () => {
        timer.cancel();
        resolve();
      };
    });
    hurry = null;
  };

  const hurryEnds = ({ finished, routes }: Hints): void => {
    if (hurry === null || outgoing.finished.length === 0) return;
    const nowUs = platform.monotonicUs();
    const hasFreed = finished.length > 0 && routes.size > 0;
    if (nowUs - hurriedUs < (hasFreed ? hurryGapMs.frees : hurryGapMs.ends) * 1000) return;
    hurriedUs = nowUs;
    hurry();
  };

  const send = async (hasJustSent = false): Promise<void> => {
    if (isSending) return;
    isSending = true;
    if (hasJustSent) await pause();
    while (!isEmpty(outgoing) && !isClosed) {
      const payload = writePayload(outgoing, sender);
      outgoing = emptyHints();
      readyUs.clear();
      await notify(payload).catch(() => undefined);
      await pause();
    }
    isSending = false;
  };

  return {
    emit(hints) {
      if (isClosed || isEmpty(hints)) return;
      joinHints(outgoing, hints);
      for (const route of hints.routes) readyUs.set(route, platform.monotonicUs());
      hurryEnds(hints);
      void send();
    },
    announceTaken(routes, sentUs) {
      for (const route of routes) {
        // Jobs that became ready before the claim was sent are among the claimed ones, so their hint is not needed any
        // more.
        if ((readyUs.get(route) ?? 0) < sentUs) outgoing.routes.delete(route);
        if (!outgoing.routes.has(route)) outgoing.taken.add(route);
      }
      if (!isClosed) void send();
    },
    ride() {
      if (isClosed || isSending) return null;
      isSending = true;
      return {
        by: sender,
        over(isAnnounced) {
          isSending = false;
          void send(isAnnounced);
        },
      };
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      if (!isEmpty(outgoing)) await notify(writePayload(outgoing, sender)).catch(() => undefined);
    },
  };
}

function joinHints(all: Hints, hints: Hints): void {
  const { routes, dueInMs, hasDueDocs, hasPromoted, hasEmitted, finished, cancels, signals, outputs } = hints;
  for (const route of routes) all.routes.add(route);
  all.hasDueDocs ||= hasDueDocs;
  all.hasPromoted ||= hasPromoted;
  all.hasEmitted ||= hasEmitted;
  if (dueInMs !== null) hintDue(all, dueInMs);
  if (all.finished.length <= idsMax) all.finished.push(...finished.slice(0, idsMax + 1));
  if (all.cancels.length <= idsMax) all.cancels.push(...cancels.slice(0, idsMax + 1));
  if (all.signals.length <= idsMax) all.signals.push(...signals.slice(0, idsMax + 1));
  if (all.outputs.length <= idsMax) all.outputs.push(...outputs.slice(0, idsMax + 1));
}

export function writePayload(hints: Hints, sender: string): string {
  const { routes, dueInMs, hasDueDocs, hasPromoted, hasEmitted, taken } = hints;
  const { finished, cancels, signals, outputs } = hints;
  const brief = {
    by: sender,
    r: routes.size === 0 ? undefined : [...routes].slice(0, idsMax),
    d: dueInMs ?? undefined,
    o: hasDueDocs || undefined,
    p: hasPromoted || undefined,
    k: taken.size === 0 ? undefined : [...taken].slice(0, idsMax),
    t: hasEmitted || undefined,
  };
  // The counts are checked before the payload is written out, because a busy process collects long lists.
  const counts = [routes.size, finished.length, cancels.length, signals.length, outputs.length];
  if (counts.every((count) => count <= idsMax)) {
    const whole = JSON.stringify({
      ...brief,
      f: finished.length === 0 ? undefined : finished,
      c: cancels.length === 0 ? undefined : cancels.map(({ id, owner }) => [id, owner]),
      s: signals.length === 0 ? undefined : signals.map(({ id, owner }) => [id, owner]),
      w: outputs.length === 0 ? undefined : outputs,
    });
    if (Buffer.byteLength(whole) < payloadBytesMax) return whole;
  }
  return JSON.stringify({ ...brief, more: true });
}

/**
 * The payload of a call without a sender's name: every process looks at the feed, and gets the hint of these routes at
 * once.
 */
export function writeMore(routes: ReadonlySet<number>): string {
  return JSON.stringify({ r: [...routes].slice(0, idsMax), more: true });
}

/** Any user of the channel can send a payload. One that cannot be read only says that the feed may have more. */
export function readPayload(text: string): { by: string | null; hints: Hints; hasMore: boolean } {
  const hints = emptyHints();
  let payload: Payload;
  try {
    payload = JSON.parse(text) as Payload;
    for (const route of payload.r ?? []) hints.routes.add(route);
    if (payload.d !== undefined) hintDue(hints, payload.d);
    hints.hasDueDocs = payload.o === true;
    hints.hasPromoted = payload.p === true;
    hints.hasEmitted = payload.t === true;
    for (const route of payload.k ?? []) hints.taken.add(route);
    hints.finished = payload.f ?? [];
    hints.cancels = (payload.c ?? []).map(([id, owner]) => ({ id, owner }));
    hints.signals = (payload.s ?? []).map(([id, owner]) => ({ id, owner }));
    hints.outputs = payload.w ?? [];
  } catch {
    return { by: null, hints: emptyHints(), hasMore: true };
  }
  return { by: payload.by ?? null, hints, hasMore: payload.more === true };
}
