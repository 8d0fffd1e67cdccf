/**
 * Whether a writer lives, and what an opener does about it. A living writer puts a record every ten seconds; a process
 * of this machine can be asked for directly. This only decides when to take over: what keeps the old writer out is the
 * fence, never the time that has passed.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { silentMs } from "../log/log-writer.ts";
import { momentOf, sinceMs } from "../moment.ts";
import type { Moment } from "../moment.ts";
import { ObjectsError } from "../objects/objects.ts";
import type { Replica } from "../copy/replica.ts";

/**
 * Take: fence whoever writes. Wait: stand by as a copy that follows, and take over when the writer closes, dies or
 * falls silent. Refuse: the same if it has done so already, else an error that names the writer.
 */
export type WhenHeld = "take" | "wait" | "refuse";

export interface HeldOptions {
  readonly whenHeld: WhenHeld;
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined;
  /** Called once with whom this process waits for, and when the bucket cannot be looked at. */
  readonly onWaiting?: ((sentence: string) => void) | undefined;
}

const lookMs = 500;
/** Records stay for an hour after a mark made them needless, so that whoever looked since can read on. */
const pauseMaxMs = 10 * 60_000;

/** What a fence says of its writer's process. */
interface WriterNote {
  readonly host: string;
  readonly pid: number;
  /** `Platform.processKey`. */
  readonly key: string | null;
}

export function noteOf(platform: Platform): string {
  const { hostName: host, processId: pid } = platform;
  return JSON.stringify({ host, pid, key: platform.processKey() } satisfies WriterNote);
}

export function readNote(replica: Replica): WriterNote | null {
  return replica.writerNote === "" ? null : (JSON.parse(replica.writerNote) as WriterNote);
}

export function writerName(replica: Replica): string {
  const note = readNote(replica);
  return note === null ? "another process" : `process ${note.pid} on ${note.host}`;
}

/** Whether the writer's process runs; null where nobody here can tell. */
export function isWriterRunning(replica: Replica, platform: Platform): boolean | null {
  const key = readNote(replica)?.key ?? null;
  return key === null ? null : platform.isProcessRunning(key);
}

/** Looks at the log, however long the last look is ago. */
export class Follower {
  readonly replica: Replica;
  readonly #platform: Platform;
  #lookedAt: Moment;

  constructor(replica: Replica, platform: Platform) {
    this.replica = replica;
    this.#platform = platform;
    this.#lookedAt = momentOf(platform);
  }

  get sinceLookMs(): number {
    return sinceMs(this.#lookedAt, this.#platform);
  }

  /** @returns whether there was anything new. */
  async look(): Promise<boolean> {
    const began = momentOf(this.#platform);
    const isLong = this.sinceLookMs > pauseMaxMs;
    const isRenewed = isLong && (await this.replica.renewIfPassed());
    const records = await this.replica.catchUp();
    this.#lookedAt = began;
    return isRenewed || records > 0;
  }
}

/** Resolves when this process may take over. */
export async function untilFree(replica: Replica, options: HeldOptions, platform: Platform): Promise<void> {
  const { whenHeld, signal, onWaiting = () => undefined } = options;
  if (whenHeld === "take") return;
  const follower = new Follower(replica, platform);
  let heardUs = platform.monotonicUs();
  let hasSaid = false;
  let hasTrouble = false;
  for (;;) {
    const isRunning = isWriterRunning(replica, platform);
    if (replica.isFree || isRunning === false) return;
    if (platform.monotonicUs() - heardUs >= silentMs * 1000) return;
    // On one machine there is one clock.
    if (whenHeld === "refuse" && isRunning === true && Math.abs(platform.now() - replica.writerAt) < silentMs)
      throw heldBy(replica);
    if (whenHeld === "wait" && !hasSaid) onWaiting(waitingFor(replica));
    hasSaid = true;
    await pause(platform, signal);
    try {
      if (!(await follower.look())) continue;
      hasTrouble = false;
      heardUs = platform.monotonicUs();
      if (whenHeld === "refuse" && !replica.isFree) throw heldBy(replica);
    } catch (error) {
      if (!(error instanceof ObjectsError) || whenHeld === "refuse") throw error;
      // Nothing was heard because this process cannot hear.
      heardUs = platform.monotonicUs();
      if (!hasTrouble)
        onWaiting(`The bucket cannot be looked at while this process stands by: ${error.message}`);
      hasTrouble = true;
    }
  }
}

export function pause(platform: Platform, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => {
      timer.cancel();
      const sentence = "The wait for the bucket was aborted; nothing was taken over.";
      reject(new MillraceError("aborted", sentence, { cause: signal?.reason }));
    };
    const timer = platform.setTimer(
      lookMs,
      () => {
        signal?.removeEventListener("abort", aborted);
        resolve();
      },
      true,
    );
    if (signal?.aborted === true) return aborted();
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

function waitingFor(replica: Replica): string {
  return `This process stands by: ${writerName(replica)} writes to the bucket. It takes over when that one closes, dies or is silent for ${silentMs / 1000} s; to take over at once, open with whenHeld: "take" (millrace work --take).`;
}

function heldBy(replica: Replica): MillraceError {
  const name = writerName(replica);
  const sentence = `${name.charAt(0).toUpperCase()}${name.slice(1)} writes to this bucket. Open a view of it (bucket: { view: true }), wait for it (whenHeld: "wait"), or take it over (whenHeld: "take").`;
  return new MillraceError("store-held", sentence);
}
