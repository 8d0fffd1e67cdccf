/**
 * A call of a caller that makes several calls to the store. It keeps account of the writes, so that its error tells the
 * truth about the whole: `did-not-happen` only if nothing was written and nothing is under way. Whether the read before
 * the last write failed or the read after it, makes the difference for a caller who repeats.
 *
 * It ends after `giveUp` from when it was made. After its end it sends nothing more, so a call that was told not to
 * have happened does not happen later. One that goes through many jobs ends only if the store answers nothing for that
 * long; each of its calls is bounded by itself.
 *
 *   open ──► answered
 *     └────► failed, given up, aborted: everything that it still wants to send is refused
 */
import { durationText } from "../../model/duration.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import type { Store } from "../../store/store.ts";
import type { Needs } from "../services.ts";
import type { Submitter } from "../submit/submitter.ts";
import { withinLimit } from "./call-limit.ts";
import type { CallOptions } from "./call-limit.ts";
import { storeReads } from "./callers-store.ts";
import type { Batching } from "./partition-batcher.ts";

type OneCallNeeds = Needs<"store" | "platform" | "giveUpMs"> &
  Partial<Needs<"changes" | "reads" | "submitter" | "journals">>;

interface OneCall {
  /** The name of the call, for people. */
  readonly what: string;
  readonly limit?: CallOptions | undefined;
  /** The ids that it may make. */
  readonly ids?: readonly string[];
  /** It goes through many jobs, page by page. */
  readonly isLong?: boolean;
}

const storeWrites = ["putDocs", "putGates", "deleteUnreadable"] as const satisfies readonly (keyof Store)[];

/**
 * @param run makes its calls with the services that it gets. `isOver` returns true once the caller has given up.
 * @returns what `run` returns.
 */
export function asOneCall<Given extends OneCallNeeds, Answer>(
  needs: Given,
  { what, limit, ids, isLong = false }: OneCall,
  run: (needs: Given, isOver: () => boolean) => Promise<Answer>,
): Promise<Answer> {
  const { platform, giveUpMs } = needs;
  const account = new Account(what);
  const named = ids === undefined ? {} : { ids };
  const late = (): MillraceError => {
    account.isOver = true;
    const sentence = `${what} was not answered within ${durationText(giveUpMs)}`;
    return account.maybe > 0
      ? new MillraceError("outcome-unknown", `${sentence}; it may still happen.`, named)
      : new MillraceError("store-unavailable", `${sentence}; nothing of it happened.`);
  };
  return withinLimit(limit, {
    ...{ platform, what, isWrite: true, ...named },
    ...(isLong || giveUpMs === 0 ? {} : { giveUp: { afterMs: giveUpMs, late } }),
    run: async (isOver) => {
      account.hasEnded = isOver;
      try {
        return await run(accounted(needs, account), isOver);
      } finally {
        account.isOver = true;
      }
    },
  });
}

class Account {
  /** The writes that happened or may happen. */
  maybe = 0;
  isOver = false;
  hasEnded: () => boolean = () => false;
  readonly #what: string;

  constructor(what: string) {
    this.#what = what;
  }

  async write<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    this.#checkOpen();
    this.maybe += 1;
    try {
      return await call();
    } catch (error) {
      if (isMillraceError(error) && error.outcome === "did-not-happen") this.maybe -= 1;
      throw this.#asWhole(error);
    }
  }

  async read<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    this.#checkOpen();
    try {
      return await call();
    } catch (error) {
      throw this.#asWhole(error);
    }
  }

  #checkOpen(): void {
    if (!this.isOver && !this.hasEnded()) return;
    throw new MillraceError("aborted", `${this.#what} has ended, and sends nothing more.`);
  }

  #asWhole(error: unknown): unknown {
    return this.maybe === 0 ? error : ofWhole(this.#what, error);
  }
}

/** For what follows the write of a call: if it fails, the call may have happened all the same. */
export async function afterWrite<Answer>(what: string, rest: Promise<Answer>): Promise<Answer> {
  try {
    return await rest;
  } catch (error) {
    throw ofWhole(what, error);
  }
}

function ofWhole(what: string, error: unknown): unknown {
  if (!isMillraceError(error) || error.outcome === "unknown") return error;
  const { code, message, ids } = error;
  const text = `${what} had begun to write, and then failed: ${message}`;
  const named = ids === undefined ? {} : { ids };
  return new MillraceError(code, text, { cause: error, outcome: "unknown", ...named });
}

function accounted<Given extends OneCallNeeds>(needs: Given, account: Account): Given {
  const { store, changes, reads, submitter, journals } = needs;
  type Call = (...args: readonly unknown[]) => Promise<unknown>;
  const calls: Record<string, Call> = {};
  for (const name of storeReads)
    if (store[name] !== undefined)
      calls[name] = (...args) => account.read(() => (store[name] as Call)(...args));
  for (const name of storeWrites)
    calls[name] = (...args) => account.write(() => (store[name] as Call)(...args));
  const writing = <Item, Answer>(to: Batching<Item, Answer>): Batching<Item, Answer> => ({
    ...passing(to),
    add: (item) => account.write(() => to.add(item)),
  });
  const reading = <Item, Answer>(from: Batching<Item, Answer>): Batching<Item, Answer> => ({
    ...passing(from),
    add: (item) => account.read(() => from.add(item)),
  });
  return Object.assign(Object.create(needs) as Given, {
    store: Object.assign(Object.create(store) as Store, calls),
    ...(changes === undefined ? {} : { changes: writing(changes) }),
    ...(reads === undefined ? {} : { reads: reading(reads) }),
    ...(journals === undefined ? {} : { journals: reading(journals) }),
    ...(submitter === undefined ? {} : { submitter: submitting(submitter, account) }),
  });
}

function submitting(submitter: Submitter, account: Account): Submitter {
  const submit: Submitter["submit"] = (unit, limit) => account.write(() => submitter.submit(unit, limit));
  return Object.assign(Object.create(submitter) as Submitter, { submit });
}

function passing<Item, Answer>(batching: Batching<Item, Answer>): Omit<Batching<Item, Answer>, "add"> {
  return {
    push: (item, ticket) => batching.push(item, ticket),
    whenIdle: () => batching.whenIdle(),
  };
}
