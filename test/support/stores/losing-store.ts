/**
 * A store in front of a real one that loses replies: from one call on, either each call is done and its reply is lost,
 * or no call reaches the store. It notes which writes were applied, by the store's own answers.
 */
import { MillraceError } from "../../../src/model/error.ts";
import { storeReads } from "../../../src/engine/calls/callers-store.ts";
import type { Store } from "../../../src/store/store.ts";

export type Loss = "none" | "one reply" | "all replies" | "the store";

export interface LosingStore {
  readonly store: Store;
  /** How many calls were made, and how many of the writes among them changed something. */
  readonly seen: { calls: number; applied: number };
  /** The calls from this one on are hit, counted from 1. */
  lose(loss: Loss, from: number): void;
}

const passed = ["watch", "close", "inTransaction", "announceTaken", "missing"];
/** What a process writes about itself. */
const ownKinds = ["registry"];

export function losingStore(inner: Store): LosingStore {
  let plan: { readonly loss: Loss; readonly from: number } = { loss: "none", from: 0 };
  const seen = { calls: 0, applied: 0 };

  const call = async (
    name: string,
    args: readonly unknown[],
    invoke: () => Promise<unknown>,
  ): Promise<unknown> => {
    const isRead = (storeReads as readonly string[]).includes(name);
    const number = (seen.calls += 1);
    const { loss, from } = plan;
    const isHit = loss === "one reply" ? number === from : loss !== "none" && number >= from;
    if (isHit && loss === "the store") throw new MillraceError("store-unavailable", "The store is away.");
    const answer = await invoke();
    if (!isRead) seen.applied += appliedIn(args[0], answer);
    if (isHit)
      throw isRead
        ? new MillraceError("store-unavailable", "The reply was lost.")
        : new MillraceError("outcome-unknown", "The reply was lost.");
    return answer;
  };

  const store = new Proxy(inner, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name, target);
      if (typeof found !== "function" || typeof name !== "string" || passed.includes(name))
        return typeof found === "function" ? (found as () => unknown).bind(target) : found;
      return (...args: readonly unknown[]) =>
        call(name, args, () =>
          (found as (...given: readonly unknown[]) => Promise<unknown>).apply(target, args as unknown[]),
        );
    },
  });
  return {
    store,
    seen,
    lose: (loss, from) => {
      plan = { loss, from };
      seen.calls = 0;
      seen.applied = 0;
    },
  };
}

function appliedIn(request: unknown, answer: unknown): number {
  if (typeof answer === "number") return answer;
  if (!Array.isArray(answer)) return 0;
  const given = Array.isArray(request) ? (request as { kind?: string }[]) : [];
  return (answer as { kind?: string }[]).filter(
    ({ kind }, at) => kind === "ok" && !ownKinds.includes(given[at]?.kind ?? ""),
  ).length;
}
