/**
 * Whether a writer lives, and what an opener does about it. A living writer puts a record every ten seconds; a process
 * of this machine can be asked for directly. This only decides when to take over: what keeps the old writer out is the
 * fence, never the time that has passed.
 */
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { keepAliveMs } from "./log-writer.ts";
import type { Replica } from "./replica.ts";

/**
 * Take: fence whoever writes. Wait: stand by as a copy that follows, and take over when the writer closes or falls
 * silent. Refuse: an error that names the writer.
 */
export type WhenHeld = "take" | "wait" | "refuse";

export const silentMs = 1.5 * keepAliveMs;
const lookMs = 500;

/** What a fence says of its writer's process. */
export interface WriterNote {
  readonly host: string;
  readonly boot: string | null;
  readonly pid: number;
}

export function noteOf(platform: Platform): string {
  const { hostName: host, processId: pid } = platform;
  return JSON.stringify({ host, boot: platform.bootId(), pid } satisfies WriterNote);
}

export function readNote(replica: Replica): WriterNote | null {
  return replica.writerNote === "" ? null : (JSON.parse(replica.writerNote) as WriterNote);
}

/** Resolves when this process may take over. */
export async function untilFree(replica: Replica, whenHeld: WhenHeld, platform: Platform): Promise<void> {
  if (whenHeld === "take") return;
  let heardUs = platform.monotonicUs();
  while (!replica.isFree && !hasDied(replica, platform)) {
    if (platform.monotonicUs() - heardUs >= silentMs * 1000) return;
    await new Promise<void>((resolve) => void platform.setTimer(lookMs, resolve, true));
    if ((await replica.catchUp()) === 0) continue;
    heardUs = platform.monotonicUs();
    if (whenHeld === "refuse" && !replica.isFree) throw heldBy(replica);
  }
}

/** Whether the writer was a process of this machine that is gone. */
function hasDied(replica: Replica, platform: Platform): boolean {
  const note = readNote(replica);
  if (note === null || note.boot === null) return false;
  const isHere = note.host === platform.hostName && note.boot === platform.bootId();
  return isHere && !platform.isProcessAlive(note.pid);
}

function heldBy(replica: Replica): MillraceError {
  const { host, pid } = readNote(replica) as WriterNote;
  const sentence = `Process ${pid} on ${host} writes to this bucket. Open a view of it (bucket: { view: true }), wait for it (whenHeld: "wait"), or take it over (whenHeld: "take").`;
  return new MillraceError("store-held", sentence);
}
