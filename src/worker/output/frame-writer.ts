/**
 * Writes the output of one attempt. Frames are encoded when they are written, wait 20 ms for others, and go in chunks
 * to the store with the attempt's fence. One write is in flight; what is written meanwhile makes the next one.
 *
 *   write ──► waiting ──20 ms, 16 KB, flush, the end of the attempt──► chunks ──► recordIfLeased
 *
 * The numbers of frames are given when they are packed. A plain attempt begins at 1, and its first write deletes what
 * older attempts wrote. The stay of a durable run that goes on (`older`) reads first what was written before: it
 * numbers its frames after those, keeps them, and restarts a part that is written again.
 */
import { redact } from "../../codec/redact.ts";
import type { Needs } from "../../engine/services.ts";
import { MillraceError } from "../../model/error.ts";
import { beginChunk, packFrame } from "../../model/output/chunk-text.ts";
import type { PackedFrame } from "../../model/output/chunk-text.ts";
import { mergePatch } from "../../model/output/merge-patch.ts";
import { outputLimits } from "../../model/output/output-limits.ts";
import type { Timer } from "../../platform/platform.ts";
import type { FramePlace, FramesPut } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";
import type { JobStream } from "./job-stream.ts";
import type { OlderOutput } from "./older-output.ts";

export type FrameWriterNeeds = Needs<"platform" | "coder" | "records" | "repeated" | "log">;

/** The part of a durable run that writes a frame. */
export interface FramePart {
  readonly part: string;
  /** Another object each time the part is run again. */
  readonly life: object;
}

export interface FrameWriterOptions {
  /** How many of the newest frames are kept; null for all, up to the limits. */
  readonly keep: number | null;
  /** For a durable run: the part that runs now; null while it replays, which writes nothing. */
  readonly partNow?: () => FramePart | null;
  /** For a stay that goes on: reads what the ones before have written. */
  readonly older?: () => Promise<OlderOutput>;
}

interface Waiting extends PackedFrame {
  readonly life: object | null;
  readonly payload: string;
}

const { framesMax, charsMax, summaryCharsMax, packMs, chunkChars } = outputLimits;

/** The lives of parts that ended before this stay. */
const past = {};

export class FrameWriter implements JobStream {
  readonly #needs: FrameWriterNeeds;
  readonly #attempt: Attempt;
  readonly #options: FrameWriterOptions;
  #waiting: Waiting[] = [];
  #waitingChars = 0;
  /** Of those that `keep` has dropped before they were packed. */
  #skipped = 0;
  /** Frames that were written, and their characters, for the limits. */
  #frames = 0;
  #chars = 0;
  /** The number of the last frame that was packed. */
  #last = 0;
  #origin: number;
  /** The last life of each part that has written. */
  readonly #parts = new Map<string, object>();
  /** The chunks that the store keeps; only for `keep`. */
  #kept: { readonly place: FramePlace; readonly frames: number; readonly chars: number }[] = [];
  #keptFrames = 0;
  #keptChars = 0;
  #summary: unknown;
  #patches: unknown[] = [];
  /** Null until the older output was read; then whether the next write begins the output anew. */
  #restarts: boolean | null;
  #timer: Timer | null = null;
  #isInFlight = false;
  /** Somebody waits for what was written. */
  #isUrgent = false;
  #isBusy = false;
  #isLost = false;
  #idle: (() => void)[] = [];

  constructor(needs: FrameWriterNeeds, attempt: Attempt, options: FrameWriterOptions) {
    this.#needs = needs;
    this.#attempt = attempt;
    this.#options = options;
    this.#origin = attempt.job.fence;
    this.#restarts = options.older === undefined ? true : null;
  }

  readonly write: JobStream["write"] = (frame) => {
    this.#checkRuns("stream.write");
    const { partNow, keep } = this.#options;
    const now = partNow === undefined ? wholeJob : partNow();
    if (now === null) return;
    const shown = redact(frame, this.#attempt.policy.redact);
    const payload = this.#needs.coder.encode(shown, "frame");
    if (keep === null) this.#checkRoom(payload.length);
    if (this.#isLost) return;
    this.#frames += 1;
    this.#chars += payload.length;
    this.#waiting.push({ ...now, payload });
    this.#waitingChars += payload.length;
    while (keep !== null && (this.#waiting.length > keep || this.#waitingChars > charsMax)) this.#skip();
    this.#began();
  };

  readonly summary: JobStream["summary"] = (patch) => {
    this.#checkRuns("stream.summary");
    if (this.#options.partNow?.() === null) return;
    const given = jsonOf(redact(patch, this.#attempt.policy.redact));
    if (this.#isLost) return;
    // Tried at once, so that the handler gets the error.
    if (this.#restarts !== null) this.#encodeSummary([...this.#patches, given]);
    this.#patches.push(given);
    this.#began();
  };

  readonly flush: JobStream["flush"] = async () => {
    if (!this.#isBusy) return;
    const idle = new Promise<void>((resolve) => this.#idle.push(resolve));
    this.hurry();
    await idle;
  };

  /** Sends what is waiting without waiting for more. */
  hurry(): void {
    if (!this.#isBusy) return;
    this.#isUrgent = true;
    this.#send();
  }

  #checkRuns(call: string): void {
    const { phase, job } = this.#attempt;
    if (phase === "running") return;
    throw new MillraceError(
      "lease-lost",
      `${call} of the job ${job.id} was refused: the attempt has ended; output must be written before the handler returns.`,
    );
  }

  #checkRoom(chars: number): void {
    if (this.#frames < framesMax && this.#chars + chars <= charsMax) return;
    throw new MillraceError(
      "output-full",
      `The output of ${this.#attempt.job.id} has ${this.#frames} frames with ${this.#chars} characters; the limits are ` +
        `${framesMax} and ${charsMax}. Give its definition frames: { keep: n } to keep the newest n frames.`,
    );
  }

  #skip(): void {
    const oldest = this.#waiting.shift() as Waiting;
    this.#waitingChars -= oldest.payload.length;
    this.#skipped += 1;
  }

  /** Something waits to be sent. */
  #began(): void {
    if (!this.#isBusy) {
      this.#isBusy = true;
      this.#attempt.callBegins();
      if (this.#restarts === null) void this.#readOlder();
    }
    if (this.#isUrgent || this.#waitingChars >= chunkChars) return this.#send();
    if (this.#isInFlight) return;
    this.#timer ??= this.#needs.platform.setTimer(packMs, () => {
      this.#timer = null;
      this.#send();
    });
  }

  async #readOlder(): Promise<void> {
    if (this.#isInFlight) return;
    this.#isInFlight = true;
    try {
      const older = await (this.#options.older as () => Promise<OlderOutput>)();
      this.#restarts = older.origin === null;
      this.#origin = older.origin ?? this.#origin;
      this.#last = older.last;
      this.#frames += older.frames;
      this.#chars += older.chars;
      for (const part of older.parts) this.#parts.set(part, past);
      for (const chunk of older.chunks) this.#keep(chunk.place, chunk.frames, chunk.chars);
      this.#summary = older.summary;
      this.#landed();
    } catch (error) {
      this.#failed(error);
    }
  }

  #send(): void {
    if (this.#isInFlight || this.#restarts === null) return;
    this.#timer?.cancel();
    this.#timer = null;
    const { id, seq, fence } = this.#attempt.job;
    let frames: FramesPut;
    try {
      frames = this.#pack();
    } catch (error) {
      return this.#failed(error);
    }
    this.#isInFlight = true;
    this.#needs.records.append({ id, seq, fence, frames }).then(
      (answer) => {
        if (answer === "ok") return this.#landed();
        // The lease is lost. The renewal aborts the handler.
        this.#needs.log.debug("output of a past attempt was refused", { id, answer });
        return this.#lose();
      },
      (error: unknown) => this.#failed(error),
    );
  }

  #landed(): void {
    this.#isInFlight = false;
    if (this.#waiting.length === 0 && this.#patches.length === 0) return this.#rest();
    if (this.#isUrgent || this.#waitingChars >= chunkChars) return this.#send();
    this.#began();
  }

  /** Nothing is waiting or in flight. */
  #rest(): void {
    this.#isBusy = this.#isUrgent = false;
    this.#timer?.cancel();
    this.#timer = null;
    const idle = this.#idle;
    this.#idle = [];
    this.#attempt.callEnds();
    for (const resolve of idle) resolve();
  }

  #failed(error: unknown): void {
    const { id } = this.#attempt.job;
    this.#needs.repeated.say("warn", "output was not written; the rest of the attempt writes none", {
      id,
      error,
    });
    this.#lose();
  }

  #lose(): void {
    this.#isLost = true;
    this.#isInFlight = false;
    this.#waiting = [];
    this.#patches = [];
    this.#waitingChars = 0;
    this.#rest();
  }

  /** All that waits, as a write. */
  #pack(): FramesPut {
    const summary = this.#patches.length === 0 ? null : this.#encodeSummary(this.#patches);
    if (summary !== null) {
      this.#summary = summary.value;
      this.#patches = [];
    }
    const restarts = this.#restarts === true;
    this.#restarts = false;
    const chunks = this.#packFrames();
    const dropsTo = this.#drop();
    return {
      chunks,
      ...(summary === null ? {} : { summary: summary.text }),
      ...(restarts ? { restarts } : {}),
      ...(dropsTo === null ? {} : { dropsTo }),
    };
  }

  #packFrames(): FramesPut["chunks"] {
    const { fence } = this.#attempt.job;
    const chunks: { number: number; body: string }[] = [];
    this.#last += this.#skipped;
    this.#skipped = 0;
    let body = "";
    let before: string | null = null;
    let first = this.#last;
    const close = (): void => {
      chunks.push({ number: this.#last, body });
      this.#keep({ fence, number: this.#last }, this.#last - first, body.length);
      [body, before, first] = ["", null, this.#last];
    };
    const add = (frame: PackedFrame): void => {
      if (body === "") body = beginChunk(this.#origin);
      body += packFrame(frame, before);
      before = frame.part;
      this.#last += 1;
    };
    for (const { part, life, payload } of this.#waiting) {
      if (part !== null && this.#isAgain(part, life)) add({ part, payload: null });
      add({ part, payload });
      if (body.length >= chunkChars) close();
    }
    if (body !== "") close();
    this.#waiting = [];
    this.#waitingChars = 0;
    return chunks;
  }

  /** Whether the part has written in another life. */
  #isAgain(part: string, life: object | null): boolean {
    const known = this.#parts.get(part);
    if (life !== null && known !== life) this.#parts.set(part, life);
    return known !== undefined && known !== life;
  }

  #keep(place: FramePlace, frames: number, chars: number): void {
    if (this.#options.keep === null) return;
    this.#kept.push({ place, frames, chars });
    this.#keptFrames += frames;
    this.#keptChars += chars;
  }

  /** The place up to which chunks can go: what is after them are the newest `keep` frames, or more. */
  #drop(): FramePlace | null {
    const { keep } = this.#options;
    if (keep === null) return null;
    let dropped = 0;
    for (const { frames, chars } of this.#kept) {
      const isSpare = this.#keptFrames - frames >= keep || this.#keptChars > charsMax;
      if (!isSpare || dropped === this.#kept.length - 1) break;
      this.#keptFrames -= frames;
      this.#keptChars -= chars;
      dropped += 1;
    }
    const last = this.#kept.splice(0, dropped).at(-1);
    return last?.place ?? null;
  }

  #encodeSummary(patches: readonly unknown[]): { readonly value: unknown; readonly text: string } {
    const value = patches.reduce(mergePatch, this.#summary);
    const text = this.#needs.coder.encode(value, "summary");
    if (text.length <= summaryCharsMax) return { value, text };
    throw new MillraceError(
      "payload-too-large",
      `The summary of the output would have ${text.length} characters; the limit is ${summaryCharsMax}.`,
    );
  }
}

const wholeJob = { part: null, life: null } as const;

/** What a JSON text of the value says, so that later changes of the value change nothing. */
function jsonOf(patch: unknown): unknown {
  let text: string | undefined;
  try {
    text = JSON.stringify(patch);
  } catch (cause) {
    throw new MillraceError("payload-not-encodable", "stream.summary takes JSON: see the cause.", { cause });
  }
  if (text === undefined) throw new MillraceError("payload-not-encodable", "stream.summary takes JSON.");
  return JSON.parse(text) as unknown;
}
