/** Bugs that the property test of random programs must find. Each removes one guard of the runtime or the store. */
import type { EntryBody } from "../../src/model/durable/journal-entry.ts";
import type { LiveCall } from "../../src/worker/durable/live-call.ts";
import { RunExecution } from "../../src/worker/durable/run-execution.ts";
import type { Bugs } from "./durable-world.ts";

const settles: ReadonlySet<EntryBody["kind"]> = new Set([
  ...(["result", "error", "arrived", "decided", "rang", "child"] as const),
]);

/** A recorded result is handed out as soon as a call of its name is made. */
class ByName extends RunExecution {
  override ask(call: LiveCall): void {
    super.ask(call);
    const entry = this.cursor.entries.find(
      ({ body }) => settles.has(body.kind) && "call" in body && body.call === call.key,
    );
    if (entry !== undefined) this.apply(entry, call);
  }
}

/** The n-th call gets the n-th recorded result. */
class ByCallOrder extends RunExecution {
  #asked = 0;
  override ask(call: LiveCall): void {
    super.ask(call);
    if (call.kind === "race") return;
    const entry = this.cursor.entries.filter(({ body }) => settles.has(body.kind))[this.#asked++];
    if (entry !== undefined) this.apply(entry, call);
  }
}

class SeveralPerTurn extends RunExecution {
  protected override deliverNext(): boolean {
    let isFelt = false;
    while (super.deliverNext()) isFelt = true;
    return isFelt;
  }
}

class RecordWithoutWaiting extends RunExecution {
  protected override stepEnded(call: LiveCall, body: EntryBody): void {
    super.stepEnded(call, body);
    if (body.kind !== "failed") this.apply({ number: 0, at: this.now, key: "", body }, call);
  }
}

const results: ReadonlySet<EntryBody["kind"]> = new Set(["result", "error", "failed", "raced"]);

/** Delivered at once, and kept back until something else has a result. */
class OutcomeWithNextResult extends RunExecution {
  readonly #held: EntryBody[] = [];
  protected override decided(call: LiveCall, body: EntryBody): void {
    if (body.kind !== "arrived" && body.kind !== "rang") {
      super.decided(call, body);
      return;
    }
    call.isDecided = true;
    this.#held.push(body);
    this.apply({ number: 0, at: this.now, key: "", body }, call);
    this.wake();
  }
  protected override record(body: EntryBody): void {
    // The constructor of the class above records before there is a list here.
    if (results.has(body.kind)) for (const each of this.#held.splice(0)) super.record(each);
    super.record(body);
  }
}

/** Only the answer true is remembered, and only for as long as nothing was recorded after it. */
class ForgottenPatches extends RunExecution {
  override patched(name: string): boolean {
    const recorded = this.cursor.entries.some(({ body }) => body.kind === "patched" && body.name === name);
    if (recorded) return true;
    const isReplaying = !this.cursor.isCaughtUp;
    if (isReplaying) return false;
    return super.patched(name);
  }
}

/** Steps start, and results are delivered, before the answer of `patched` is durable. */
class UnsurePatches extends RunExecution {
  override patched(name: string): boolean {
    const { answer, isNew } = this.cursor.patched(name);
    if (isNew) this.record({ kind: "patched", name, answer });
    return answer;
  }
}

class LosersStayOpen extends RunExecution {
  protected override apply(...[entry, call]: Parameters<RunExecution["apply"]>): boolean {
    if (entry.body.kind !== "raced" || call === null) return super.apply(entry, call);
    const settlement = call.ended.get(entry.body.winner);
    this.open.delete(call.key);
    if (settlement !== undefined) call.settle(settlement);
    return true;
  }
  protected override isClosing(): boolean {
    return false;
  }
}

export const plantedBugs: Readonly<Record<string, Bugs>> = {
  "delivery by name": { Execution: ByName },
  "delivery by call order": { Execution: ByCallOrder },
  "several results in one turn": { Execution: SeveralPerTurn },
  "record without waiting": { Execution: RecordWithoutWaiting },
  "wait outcome recorded only with the next result": { Execution: OutcomeWithNextResult },
  "delivery before the answer of patched is durable": { Execution: UnsurePatches },
  "a patch that was refused is allowed later": { Execution: ForgottenPatches },
  "losers of a race stay open": { Execution: LosersStayOpen },
  "suspend ignores seen": { store: "suspend ignores seen" },
  "append does not resume": { store: "append does not resume" },
  "no key check": { store: "no key check" },
  "resume keeps ttlAt": { store: "resume keeps ttlAt" },
  "record without fence": { store: "record without fence" },
};
