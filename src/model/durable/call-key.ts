/**
 * The identity of a call in a run: the name that the handler gave, and how many calls of that name its scope has made
 * before. The kind of the call is checked beside it. Branches of a race and items of an `each` are scopes of their own,
 * so that parallel branches of one program text do not share counts.
 *
 *  reserve#1            the first step "reserve" of the handler
 *  ?paid#2              the second wait for the signal "paid" (waits and approvals count by themselves, so that a
 *                       token made before its wait can name it)
 *  tool#1[c7]/call#1    the first step "call" in the item c7 of the each "tool"
 *  race#1.paid/?paid#1  the first wait for "paid" in the branch "paid" of the first race
 */
import type { CallKind } from "./journal-entry.ts";

/** Characters that mean something in a key; a name that has one is escaped, so two names never make one key. */
const special = /[%#/?[\].]/g;

export function escapeName(name: string): string {
  return name.replaceAll(special, (character) => `%${character.charCodeAt(0).toString(16)}`);
}

export class CallScope {
  /** "" for the handler itself, else what all keys of the scope begin with. */
  readonly prefix: string;
  readonly #counts = new Map<string, number>();

  constructor(prefix = "") {
    this.prefix = prefix;
  }

  /** The key of the next call of that name. */
  nextKey(kind: CallKind, name: string): string {
    const family = kind === "wait" || kind === "approval" ? `?${escapeName(name)}` : escapeName(name);
    const count = (this.#counts.get(family) ?? 0) + 1;
    this.#counts.set(family, count);
    return `${this.prefix}${family}#${count}`;
  }
}

/** The name that the handler gave to a call, by its key. */
export function nameOfCall(key: string): string {
  const own = key.slice(key.lastIndexOf("/") + 1).replace(/^\?/, "");
  return own
    .slice(0, own.lastIndexOf("#"))
    .replaceAll(/%([0-9a-f]{2})/g, (_escaped, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
}

/** What the keys of one branch of a race begin with. */
export function branchPrefix(raceKey: string, branch: string): string {
  return `${raceKey}.${escapeName(branch)}/`;
}

/** What the keys of one item of an each begin with. */
export function itemPrefix(eachKey: string, item: string): string {
  return `${eachKey}[${escapeName(item)}]/`;
}

/** The key of a wait of the handler itself, as a token names it. */
export function waitKey(signal: string, occurrence: number): string {
  return `?${escapeName(signal)}#${occurrence}`;
}
