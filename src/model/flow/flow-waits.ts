/**
 * What a member of a flow waits for, and how far its own end was passed on; for a flow also how its members ended. One
 * text of whole numbers, joined by commas, that rule R4 reads and writes:
 *
 *   need,slack,passed,defers                                                        of every member
 *   need,slack,passed,defers,total,completed,failed,cancelled,expired,skipped       of a flow
 *
 * need     how many more ends must meet it before it is freed
 * slack    how many more ends may miss it; below 0 it can never be freed
 * passed   how many of its edges its own end has gone along
 * defers   1: its freeing leaves deferred work (a flow is decided, the siblings of a race are cancelled)
 * total    how many members the flow has had; the next five counts say how many have ended in which state
 */
import { stateCodes } from "../job/job-state.ts";

export interface Waits {
  readonly need: number;
  readonly slack: number;
  readonly passed: number;
  readonly defers: 0 | 1;
  /** Of a flow: how many members it has had, and how they ended, in the order of the codes of terminal states. */
  readonly members: { readonly total: number; readonly ended: readonly number[] } | null;
}

export function writeWaits({ need, slack, passed, defers, members }: Waits): string {
  const own = [need, slack, passed, defers];
  return (members === null ? own : [...own, members.total, ...members.ended]).join(",");
}

export function readWaits(text: string): Waits {
  const [need = 0, slack = 0, passed = 0, defers = 0, total, ...ended] = text.split(",").map(Number);
  const members = total === undefined ? null : { total, ended };
  return { need, slack, passed, defers: defers === 1 ? 1 : 0, members };
}

/** The need alone, which every submit of a member reads. */
export function readNeed(text: string): number {
  return Number.parseInt(text, 10);
}

/** The waits of a new job: nothing has arrived or was passed on. */
export function newWaits(
  given: Pick<Waits, "need"> & Partial<Pick<Waits, "slack" | "defers">> & { readonly total?: number },
): string {
  const { need, slack = 0, defers = 0, total } = given;
  const members = total === undefined ? null : { total, ended: [0, 0, 0, 0, 0] };
  return writeWaits({ need, slack, passed: 0, defers, members });
}

/** The counts with one more (or less) member that has ended in this state. */
export function countEnd(members: Waits["members"], state: number, change: 1 | -1): Waits["members"] {
  if (members === null) return null;
  const at = state - stateCodes.completed;
  return { ...members, ended: members.ended.map((count, index) => (index === at ? count + change : count)) };
}
