/**
 * The ledger of a process: what its handlers report is added to the counts, in one unit for all reports of a flush.
 *
 * Adds have no guard, so a repeat would count twice. The unit also puts the ledger's document under its version, with
 * the number of the last report that is counted. After a lost reply the version does not match, and the document says
 * which reports are counted. Nobody else writes it, so a unit is applied once, however often it is sent and however
 * late it arrives.
 */
import { MillraceError } from "../../model/error.ts";
import { textIn } from "../../model/routing/placement.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { DocAdd, DocWrite } from "../../store/records.ts";
import { isLocked } from "../../store/operations.ts";
import { Batcher } from "../calls/batcher.ts";
import type { Needs } from "../services.ts";
import { countId, countKind, ledgerKind, workKind } from "./budget-docs.ts";
import type { CountName } from "./budget-docs.ts";

export type LedgerNeeds = Needs<"store" | "platform" | "flush" | "ids" | "giveUpMs">;

/** An amount that is added to one count. */
export interface CountAdd {
  readonly count: CountName;
  readonly by: number;
  /** The amounts at which it leaves work. */
  readonly marks: readonly number[];
}

interface Entry {
  readonly number: number;
  readonly adds: readonly CountAdd[];
}

/** A process that writes nothing for this long begins a new document. */
const ledgerTtlMs = 86_400_000;
/** As often as a reply may be lost in a row. */
const triesMax = 10;

export function addOf({ count, by, marks }: CountAdd, ceiling: number | null = null): DocAdd {
  const id = countId(count);
  return {
    kind: countKind,
    id,
    add: { by, ceiling, ...(marks.length === 0 ? {} : { marks, leaves: { kind: workKind, id } }) },
  };
}

/** Leaves the work of a count that has passed a mark downwards. */
export function workOf({ count }: Pick<CountAdd, "count">): DocWrite {
  return { kind: workKind, id: countId(count), body: "", guard: "any", due: { inMs: 0 } };
}

/** The reports of a process, in one partition. */
class LedgerPart {
  readonly #needs: LedgerNeeds;
  readonly #id: string;
  readonly #batcher: Batcher<Entry, true>;
  #last = 0;
  /** Null: not known. */
  #version: number | null = 0;

  constructor(needs: LedgerNeeds, partition: number) {
    const { ids, platform, flush, giveUpMs } = needs;
    const { placement } = ids;
    this.#needs = needs;
    this.#id = `${placement === null ? "" : `{${textIn(placement, partition)}}`}${ids.mint()}`;
    this.#batcher = new Batcher({
      ...{ platform, flush, giveUpMs, weightMax: storeLimits.callItemsMax - 1 },
      weigh: ({ adds }) => adds.length,
      call: (entries) => this.#write(entries),
    });
  }

  add(adds: readonly CountAdd[]): Promise<true> {
    this.#last += 1;
    return this.#batcher.add({ number: this.#last, adds });
  }

  whenIdle(): Promise<void> {
    return this.#batcher.whenIdle();
  }

  async #write(entries: readonly Entry[]): Promise<readonly true[]> {
    const { store } = this.#needs;
    const newest = entries.at(-1)?.number ?? 0;
    let left = entries;
    for (let tries = 0; tries < triesMax; tries++) {
      if (this.#version === null) {
        const { docs } = await store.readDocs({ kind: ledgerKind, ids: [this.#id] });
        const counted = Number(docs[0]?.body ?? 0);
        this.#version = docs[0]?.version ?? 0;
        left = left.filter(({ number }) => number > counted);
      }
      if (left.length === 0) return entries.map(() => true as const);
      const known = this.#version;
      // Whatever becomes of the call, only its answer says which version the document has.
      this.#version = null;
      const ledger = {
        kind: ledgerKind,
        id: this.#id,
        body: String(newest),
        guard: known === 0 ? ("absent" as const) : { version: known },
        expiresInMs: ledgerTtlMs,
      };
      const [answer] = await store.submit([{ jobs: [], docs: [ledger, ...sums(left)] }]);
      if (answer === undefined || isLocked(answer))
        throw new MillraceError("store-busy", "An open transaction holds the counts of a budget.");
      if (answer.kind === "ok") {
        // A new document begins above every version that the store has deleted, so only the next read knows it.
        this.#version = known === 0 ? null : known + 1;
        return entries.map(() => true as const);
      }
      if (answer.reason !== "doc-changed")
        throw new MillraceError(
          "counter-refused",
          `Nothing can be added to the count ${JSON.stringify(answer.id)} of a budget: it is no number, or the sum would be too large.`,
        );
    }
    throw new MillraceError("version-conflict", "The ledger of this process changes all the time.");
  }
}

/** One add for each count. */
function sums(entries: readonly Entry[]): readonly DocAdd[] {
  const byId = new Map<string, CountAdd>();
  for (const { adds } of entries)
    for (const add of adds) {
      const id = countId(add.count);
      byId.set(id, { ...add, by: add.by + (byId.get(id)?.by ?? 0) });
    }
  return [...byId.values()].map((add) => addOf(add));
}

export class Ledger {
  readonly #needs: LedgerNeeds;
  readonly #parts = new Map<number, LedgerPart>();

  constructor(needs: LedgerNeeds) {
    this.#needs = needs;
  }

  /**
   * Adds to counts of one budget. It resolves when they are written; a lost reply counts nothing twice. An error with
   * the outcome "unknown" says that the store was away for too long.
   */
  async add(adds: readonly CountAdd[]): Promise<void> {
    const [first] = adds;
    if (first === undefined) return;
    const partition = this.#needs.ids.placement?.ofName(countId(first.count)) ?? 0;
    let part = this.#parts.get(partition);
    if (part === undefined) this.#parts.set(partition, (part = new LedgerPart(this.#needs, partition)));
    await part.add(adds);
  }

  async whenIdle(): Promise<void> {
    await Promise.all([...this.#parts.values()].map((part) => part.whenIdle()));
  }
}
