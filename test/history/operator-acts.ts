/**
 * What operators did to jobs from outside: the revokes and removals among the calls, by which events of the feed are
 * explained.
 */
import type { Change } from "../../src/store/operations.ts";
import type { Operation, StoreCall } from "./history.ts";

export interface OperatorAct {
  readonly what: "revoke" | "remove";
  readonly id: string;
  /** Of the job after it; null when nobody knows whether it happened. */
  readonly rev: number | null;
  readonly call: StoreCall;
}

export class OperatorActs {
  readonly list: readonly OperatorAct[];
  readonly #byJob: ReadonlyMap<string, readonly OperatorAct[]>;
  /** Revs that an answered change gave, whoever made it: no act of unknown outcome did. */
  readonly #answered: ReadonlySet<string>;

  constructor(operations: readonly Operation[]) {
    this.list = operations.flatMap(readActs);
    this.#byJob = Map.groupBy(this.list, ({ id }) => id);
    this.#answered = new Set(operations.flatMap(readRevs));
  }

  /** The act that gave the job this rev, or else one of unknown outcome that may have. */
  explain(what: OperatorAct["what"], id: string, rev: number): OperatorAct | undefined {
    const acts = this.#byJob.get(id)?.filter((act) => act.what === what);
    const sure = acts?.find((act) => act.rev === rev);
    if (sure !== undefined || this.#answered.has(`${id}#${rev}`)) return sure;
    return acts?.find((act) => act.rev === null);
  }
}

function readRevs(call: Operation): string[] {
  if (call.kind !== "changeIf") return [];
  return (call.answer ?? []).flatMap((answer, index) =>
    answer.kind === "ok" ? [`${call.request[index]?.id}#${answer.rev}`] : [],
  );
}

function readActs(call: Operation): OperatorAct[] {
  if (call.kind !== "changeIf" || (call.answer === null && call.seen !== "unknown")) return [];
  return call.request.flatMap(({ id, cases }, index): OperatorAct[] => {
    const answer = call.answer?.[index];
    if (answer !== undefined && answer.kind !== "ok") return [];
    const [first] = cases;
    const what = actOf(answer === undefined ? first : cases[answer.applied]);
    return what === null ? [] : [{ what, id, rev: answer?.rev ?? null, call }];
  });
}

function actOf(change: Change["cases"][number] | undefined): OperatorAct["what"] | null {
  if (change?.next.event === "deleted") return "remove";
  return change?.next.event === "revoked" ? "revoke" : null;
}
