/**
 * Of counters: invariant 65. Adds travel alone, with units, and as effects of settles and of journal entries; the
 * answers of those that travel alone have the number. The counters of a run are never put whole and do not expire.
 */
import { isLocked } from "../../../src/store/operations.ts";
import type { PutDocAnswer } from "../../../src/store/operations.ts";
import type { DocAdd, DocPut } from "../../../src/store/records.ts";
import { countKind } from "../history.ts";
import type { Operation } from "../history.ts";
import { pushTo } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

interface Added {
  readonly put: DocAdd;
  /** Unknown: it may have been applied. */
  readonly was: "applied" | "refused" | "unknown";
  /** The sum, or the present number of one above the ceiling; null where the answer has none. */
  readonly number: number | null;
}

type Outcome = Pick<Added, "was" | "number">;

const [applied, refused, unknown] = (["applied", "refused", "unknown"] as const).map((was): Outcome => ({
  was,
  number: null,
})) as [Outcome, Outcome, Outcome];

export function* checkCounters({ evidence }: Ledger): Generator<Violation> {
  const counters = new Map<string, Added[]>();
  const seen = new Set<string>();
  for (const operation of evidence.operations)
    for (const added of addsOf(operation, seen)) pushTo(counters, added.put.id, added);
  for (const [id, adds] of counters) {
    const kept = Number(evidence.snapshot.counters.find((doc) => doc.id === id)?.body ?? 0);
    yield* ceilingsHold(id, adds);
    yield* sumIsKept(id, adds, kept);
    yield* marksArePassedOnce(id, adds, kept);
  }
}

/** Also an answer whose reply was lost counts where it is known. `seen`: entries of journals that came before. */
function* addsOf(operation: Operation, seen: Set<string>): Generator<Added> {
  switch (operation.kind) {
    case "putDocs":
      for (const [at, put] of operation.request.entries())
        yield* addsIn(
          [put],
          outcomeOf(operation, (answers) => ofPut(answers[at] as PutDocAnswer)),
        );
      return;
    case "submit":
      for (const [at, { docs, jobs, isRepeat }] of operation.request.entries()) {
        const outcome = outcomeOf(operation, (answers) => {
          const answer = answers[at];
          if (answer?.kind !== "ok") return refused;
          // The repeat of a unit that has happened puts nothing again.
          const hasHappened = jobs.some(
            ({ id, digest }, place) =>
              digest === null && answer.hows[place] === "existing" && answer.ids[place] === id,
          );
          return isRepeat === true && hasHappened ? refused : applied;
        });
        yield* addsIn(docs, outcome);
      }
      return;
    case "settleIfLeased":
      for (const [at, { effects }] of operation.request.entries()) {
        const outcome = outcomeOf(operation, (answers) => {
          const answer = answers[at];
          return answer !== undefined && !isLocked(answer) && answer.kind === "ok" ? applied : refused;
        });
        yield* addsIn(effects?.docs, outcome);
      }
      return;
    case "recordIfLeased":
      for (const [at, { effects, entries = [], id, seq }] of operation.request.entries()) {
        const keys = entries.map(({ key }) => `${id}@${seq} ${key}`);
        const outcome = outcomeOf(operation, (answers) => {
          const answer = answers[at];
          const hasGrown = keys.some((key) => !seen.has(key));
          return typeof answer === "object" && answer.kind === "appended" && hasGrown ? applied : refused;
        });
        if (outcome.was === "applied") for (const key of keys) seen.add(key);
        yield* addsIn(effects?.docs, outcome);
      }
      return;
    default:
  }
}

function outcomeOf<Answers>(
  { answer, seen }: { readonly answer: Answers | null; readonly seen: Operation["seen"] },
  read: (answers: Answers) => Outcome,
): Outcome {
  if (answer !== null) return read(answer);
  return seen === "unknown" ? unknown : refused;
}

function ofPut(answer: PutDocAnswer): Outcome {
  const number = "number" in answer ? answer.number : null;
  return { was: answer.kind === "ok" ? "applied" : "refused", number };
}

function* addsIn(docs: readonly DocPut[] = [], outcome: Outcome): Generator<Added> {
  for (const put of docs) if (put.add !== undefined && put.kind === countKind) yield { put, ...outcome };
}

function* ceilingsHold(id: string, adds: readonly Added[]): Generator<Violation> {
  for (const { put, was, number } of adds) {
    const { by, ceiling = null } = put.add;
    if (number === null || ceiling === null || by <= 0) continue;
    if (was === "applied" && number > ceiling)
      yield {
        invariant: 65,
        message: `an add of ${by} made ${id} ${number}, above its ceiling of ${ceiling}`,
      };
    if (was === "refused" && number + by <= ceiling)
      yield { invariant: 65, message: `an add of ${by} to ${id} was refused at ${number}, below ${ceiling}` };
  }
}

function* sumIsKept(id: string, adds: readonly Added[], kept: number): Generator<Violation> {
  let [sum, least, most] = [0, 0, 0];
  for (const { put, was } of adds) {
    const { by } = put.add;
    if (was === "applied") sum += by;
    else if (was === "unknown" && by > 0) most += by;
    else if (was === "unknown") least += by;
  }
  if (kept < sum + least || kept > sum + most)
    yield {
      invariant: 65,
      message: `${id} is ${kept}, and its adds come to ${sum + least} to ${sum + most}`,
    };
}

/** Upwards once more than downwards if the number is above it in the end, else as often. */
function* marksArePassedOnce(id: string, adds: readonly Added[], kept: number): Generator<Violation> {
  const made = adds.filter(({ was }) => was !== "refused");
  if (made.some(({ was, number }) => was === "unknown" || number === null)) return;
  for (const mark of new Set(made.flatMap(({ put }) => put.add.marks ?? []))) {
    const side = (number: number): number => (mark <= number ? 1 : 0);
    const passes = made.map(
      ({ put, number }) => side(number as number) - side((number as number) - put.add.by),
    );
    const sum = passes.reduce((total, pass) => total + pass, 0);
    if (sum !== side(kept) - side(0))
      yield {
        invariant: 65,
        message: `the mark ${mark} of ${id}, which is ${kept}, was passed ${sum} times`,
      };
  }
}
