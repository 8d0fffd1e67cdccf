/**
 * The store as callers use it. While the store is away, a read and a put of documents or gates is repeated, as the
 * batchers repeat theirs (batcher.ts), until `giveUpMs` after it was made. A call without an answer by then ends too,
 * so a store that fell silent holds nobody longer. Duties do not use it: they have a backoff of their own.
 *
 * A put may be repeated after its reply was lost. If its guard then fails, the document or the gate tells whether it
 * was this put that raised the version: it holds what was to be written. If it was changed again meanwhile, the caller
 * decides anew by what stands there. An entry of the caller's KV does not tell: of two processes that compete for a
 * lock with one value, both would believe to have it. So its outcome stays unknown.
 */
import { durationText } from "../../model/duration.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Platform } from "../../platform/platform.ts";
import type { GatePutAnswer, PutDocAnswer } from "../../store/operations.ts";
import type { DocPut, GatePut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { kvKind } from "../docs/kv.ts";
import { answersWithin } from "./settles-within.ts";

/** The operations of a store that change nothing and that callers use. */
export const storeReads = [
  ...(["describe", "readGates", "readDocs", "readJobs", "findJobs", "countJobs", "readRoutes"] as const),
  ...([
    "readFeed",
    "readLogs",
    "readFrames",
    "readJournal",
    "readUnreadable",
    "readHeads",
    "measure",
  ] as const),
] satisfies readonly (keyof Store)[];

const retryLengths = { firstMs: 20, maxMs: 1000 };

type Call = (...args: readonly unknown[]) => Promise<unknown>;

export interface CallersStoreOptions {
  readonly platform: Platform;
  readonly giveUpMs: number;
}

export function callersStore(store: Store, options: CallersStoreOptions): Store {
  const { platform, giveUpMs } = options;

  const repeated = async <Answer>(
    isWrite: boolean,
    call: () => Promise<Answer>,
    doubted?: (answer: Answer, unknown: unknown) => Promise<Answer>,
  ): Promise<Answer> => {
    const endUs = platform.monotonicUs() + giveUpMs * 1000;
    const leftMs = (): number => Math.max(1, (endUs - platform.monotonicUs()) / 1000);
    let backoff: Backoff | null = null;
    let unknown: unknown = null;
    let doubtful: Answer;
    for (;;) {
      try {
        // Without a time to give up there is one try, which the store bounds.
        const answering = call();
        const answer = await (giveUpMs === 0
          ? answering
          : answersWithin(platform, answering, leftMs(), () => tooLate(isWrite, giveUpMs)));
        if (unknown === null || doubted === undefined) return answer;
        doubtful = answer;
        break;
      } catch (error) {
        const isKnown = isMillraceError(error);
        if (isWrite && (!isKnown || error.outcome === "unknown")) unknown ??= error;
        if (!isKnown || !error.retryable || platform.monotonicUs() >= endUs) throw unknown ?? error;
        // The store asks a partition that fails again by itself. Until it is back, a read answers for the others.
        if (!isWrite && (store.missing?.() ?? []).length > 0) throw error;
        const retrying = (backoff ??= new Backoff(platform, retryLengths));
        await new Promise<void>((resolve) => {
          platform.setTimer(Math.min(retrying.failed(), leftMs()), resolve);
        });
      }
    }
    return doubted(doubtful, unknown);
  };

  const isOurGate = async (put: GatePut, version: number): Promise<boolean> => {
    const { gates } = await callers.readGates({ keys: [put.key] });
    const [gate] = gates;
    const isNext = typeof put.guard === "object" && version === put.guard.version + 1;
    if (gate === undefined || !isNext || gate.version !== version) return false;
    const isClosed = gate.closedUntil !== null;
    return (
      gate.body === put.body &&
      gate.isIntakeClosed === put.isIntakeClosed &&
      isClosed === (put.closed !== null)
    );
  };

  const isOurDoc = async (put: DocPut, { version }: { readonly version: number }): Promise<boolean> => {
    if (put.body === null) return version === 0;
    const { docs } = await callers.readDocs({ kind: put.kind, ids: [put.id] });
    return docs[0]?.version === version && docs[0].body === put.body;
  };

  const callers: Store = Object.create(store) as Store;
  const wrapped: Record<string, unknown> = {};
  for (const operation of storeReads) {
    if (store[operation] === undefined) continue;
    wrapped[operation] = (...args: readonly unknown[]): Promise<unknown> =>
      repeated(false, () => (store[operation] as Call)(...args));
  }
  const putGates: Store["putGates"] = (puts) =>
    repeated(
      true,
      () => store.putGates(puts),
      (answers) =>
        Promise.all(
          answers.map(async (answer, at): Promise<GatePutAnswer> => {
            if (answer.kind !== "changed") return answer;
            const isOurs = await isOurGate(puts[at] as GatePut, answer.version);
            return isOurs ? { ...answer, kind: "ok" } : answer;
          }),
        ),
    );
  const putDocs: Store["putDocs"] = (puts) => {
    // An add has no guard: its repeat would add again.
    if (puts.some((put) => put.body === undefined)) return store.putDocs(puts);
    return repeated(
      true,
      () => store.putDocs(puts),
      (answers, unknown) =>
        Promise.all(
          answers.map(async (answer, at): Promise<PutDocAnswer> => {
            const put = puts[at] as DocPut;
            if (answer.kind !== "changed") return answer;
            if (put.kind === kvKind) throw unknown;
            return (await isOurDoc(put, answer)) ? { ...answer, kind: "ok" } : answer;
          }),
        ),
    );
  };
  return Object.assign(callers, wrapped, { putGates, putDocs });
}

function tooLate(isWrite: boolean, giveUpMs: number): MillraceError {
  const sentence = `The store did not answer within ${durationText(giveUpMs)}`;
  return isWrite
    ? new MillraceError("outcome-unknown", `${sentence}; the call may still happen.`)
    : new MillraceError("store-unavailable", `${sentence}.`);
}
