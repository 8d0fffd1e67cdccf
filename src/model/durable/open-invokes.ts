/** The jobs and flows that a run has invoked and whose end its journal does not hold. */
import type { JournalEntry } from "./journal-entry.ts";
import { loses } from "./run-steps.ts";

export interface OpenInvoke {
  readonly call: string;
  /** How often it was given up before. */
  readonly life: number;
}

/** None of a run that is to end: nobody asks for them any more. */
export function openInvokes(entries: readonly JournalEntry[]): readonly OpenInvoke[] {
  const lives = new Map<string, number>();
  const open = new Set<string>();
  for (const { body } of entries) {
    switch (body.kind) {
      case "ending":
      case "over":
        return [];
      case "opened":
        if (body.as === "invoke") open.add(body.call);
        break;
      case "raced":
        for (const call of open) if (loses(body, call)) open.delete(call);
        break;
      case "child": {
        const life = lives.get(body.call) ?? 0;
        if ((body.life ?? 0) !== life) break;
        open.delete(body.call);
        if (body.isAnew === true) lives.set(body.call, life + 1);
        break;
      }
      case "gave-up":
        open.delete(body.call);
        lives.set(body.call, (lives.get(body.call) ?? 0) + 1);
        break;
      default:
        break;
    }
  }
  return [...open].map((call) => ({ call, life: lives.get(call) ?? 0 }));
}
