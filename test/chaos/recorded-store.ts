/**
 * A store that writes an intent line before every call and an answer line behind it, at once and past every buffer, so
 * that kill -9 loses nothing that was said. An intent without an answer is a call of unknown outcome.
 *
 * All processes stamp their lines with the machine's one monotonic clock.
 */
import { writeSync } from "node:fs";
import { isMillraceError } from "../../src/model/error.ts";
import type { Store } from "../../src/store/store.ts";
import { isRecorded, recordedCalls } from "../history/history.ts";
import type { Effect, Seen } from "../history/history.ts";

export type Line =
  | {
      readonly line: "intent";
      readonly atUs: number;
      readonly call: number;
      readonly kind: string;
      readonly request: unknown;
    }
  | {
      readonly line: "answer";
      readonly atUs: number;
      readonly call: number;
      readonly seen: Seen;
      readonly answer: unknown;
    }
  | { readonly line: "effect"; readonly effect: Effect }
  | { readonly line: "ready" }
  | { readonly line: "stopped"; readonly atUs: number; readonly owner: string; readonly notStopped: number };

const lineFd = 3;

export const nowUs = (): number => Number(process.hrtime.bigint() / 1000n);

let calls = 0;

export function say(line: Line): void {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  for (let from = 0; from < bytes.length;) {
    try {
      from += writeSync(lineFd, bytes, from);
    } catch (error) {
      // A full pipe: the reader is behind, and nothing may be said out of order.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

/** Says what a call is about to do and what became of it. */
export async function saying<Answer>(
  kind: string,
  request: unknown,
  run: () => Promise<Answer>,
): Promise<Answer> {
  const call = ++calls;
  say({ line: "intent", atUs: nowUs(), call, kind, request });
  try {
    const answer = await run();
    say({ line: "answer", atUs: nowUs(), call, seen: "ok", answer });
    return answer;
  } catch (error) {
    const seen = isMillraceError(error) && error.outcome === "did-not-happen" ? "failed" : "unknown";
    say({ line: "answer", atUs: nowUs(), call, seen, answer: null });
    throw error;
  }
}

export function recordStore(store: Store): Store {
  const wrapped: Record<string, unknown> = { ...store };
  for (const kind of recordedCalls) {
    const operation = store[kind] as (request: unknown) => Promise<unknown>;
    wrapped[kind] = (request: unknown) =>
      isRecorded(kind, request) ? saying(kind, request, () => operation(request)) : operation(request);
  }
  return wrapped as unknown as Store;
}
