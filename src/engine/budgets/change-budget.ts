/**
 * The gates of budgets by compare and set, as those of limits (engine/limits/change-gate.ts): a definition, an edit and
 * a breach at the same moment all hold. An event is emitted in the step that puts the gate.
 */
import { readBudgetBody, writeBudgetBody } from "../../model/budgets/budget.ts";
import type { BudgetBody } from "../../model/budgets/budget.ts";
import { MillraceError } from "../../model/error.ts";
import type { Gate, GatePut, PutEvent } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";

export type GateStore = Pick<Store, "readGates" | "putGates">;

export interface FoundBudgetGate {
  /** Null for one that was never put. */
  readonly gate: Gate | null;
  readonly body: BudgetBody;
  readonly now: number;
}

/** What a change sets; what it leaves out stays as it is. */
export interface BudgetGateChange {
  readonly body?: BudgetBody;
  /** Until when no job passes; null for open. */
  readonly closedUntil?: number | null;
  readonly emits?: PutEvent;
}

/** As many processes as may change one gate in the same moment. */
const triesMax = 100;

export async function readBudgetGates(
  store: GateStore,
  keys: readonly string[],
): Promise<readonly FoundBudgetGate[]> {
  const { gates, now } = await store.readGates({ keys });
  return keys.map((key) => foundGate(gates.find((gate) => gate.key === key) ?? null, now));
}

export function foundGate(gate: Gate | null, now: number): FoundBudgetGate {
  return { gate, body: readBudgetBody(gate?.body ?? null) ?? readable, now };
}

/** A body that cannot be read counts as never written: the code's definition writes it anew. */
const readable: BudgetBody = { defined: null, edited: {}, acted: null };

/**
 * @param decide what is to change; null for nothing.
 * @returns what was decided by, and whether anything was changed.
 */
export async function changeBudgetGate(
  store: GateStore,
  key: string,
  decide: (found: FoundBudgetGate) => BudgetGateChange | null,
): Promise<{ readonly found: FoundBudgetGate; readonly change: BudgetGateChange | null }> {
  for (let tries = 0; tries < triesMax; tries++) {
    const [found] = (await readBudgetGates(store, [key])) as [FoundBudgetGate];
    const change = decide(found);
    if (change === null) return { found, change };
    const { gate, body, now } = found;
    const before = gate?.closedUntil ?? null;
    const until = change.closedUntil === undefined ? (before ?? 0) : change.closedUntil;
    const put: GatePut = {
      key,
      guard: { version: gate?.version ?? 0 },
      cap: null,
      rate: null,
      closed: until !== null && until > now ? { at: until } : null,
      isIntakeClosed: false,
      body: writeBudgetBody(change.body ?? body),
      ...(change.emits === undefined ? {} : { emits: change.emits }),
    };
    const [answer] = await store.putGates([put]);
    if (answer?.kind === "ok") return { found, change };
  }
  throw new MillraceError("version-conflict", "The budget changes all the time; try again.");
}
