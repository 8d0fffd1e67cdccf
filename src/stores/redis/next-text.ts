/** What becomes of a job, and under which guard, as the library reads it (argument-text.ts names the fields). */
import type { ChangeNext, Due, Edit } from "../../model/change.ts";
import { eventCodes } from "../../model/event-kind.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { Guard } from "../../store/operations.ts";
import { argumentText, unchanged } from "./argument-text.ts";
import { packNullable, packNumber } from "./text.ts";

export function dueText(due: Due): string {
  return "at" in due ? `=${due.at}` : `+${due.inMs}`;
}

export function flagText(isSet: boolean): "1" | "0" {
  return isSet ? "1" : "0";
}

export function nextText(next: ChangeNext): string {
  const event = eventCodes[next.event];
  switch (next.to) {
    case "scheduled":
      return argumentText("schedule", {
        ...{
          kind: "schedule",
          event,
          due: dueText(next.due),
          rankBase: next.rankBase,
          rankSlope: next.rankSlope,
        },
        ...{
          countsAttempt: next.countsAttempt,
          ttlMs: packNumber(next.ttlMs),
          attempt: packNumber(next.attempt),
        },
        clearsPassedDeadline: flagText(next.clearsPassedDeadline === true),
        ...editTexts(next.edit),
      });
    case "ready":
      return argumentText("handBack", { kind: "handBack", event, countsAttempt: next.countsAttempt });
    case "same":
      return argumentText("mark", {
        ...{
          kind: "mark",
          event,
          cancelAsked: next.cancelAsked === undefined ? "" : flagText(next.cancelAsked),
        },
        ...{ rankBase: packNumber(next.rankBase), rankSlope: packNumber(next.rankSlope) },
        ...editTexts(next.edit),
      });
    case "removed":
      return argumentText("remove", { kind: "remove", event });
    default:
      return argumentText("finish", {
        ...{ kind: "finish", event, to: stateCodes[next.to], keepMs: packNumber(next.keepMs) },
        ...{ keepResultMs: packNumber(next.keepResultMs) },
        ...{ reason: packNullable(next.reason), result: packNullable(next.result) },
      });
  }
}

function editTexts({ input, policy, meta }: Edit = {}): { input: string; policy: string; meta: string } {
  const textOf = (text: string | null | undefined): string =>
    text === undefined ? unchanged : packNullable(text);
  return { input: textOf(input), policy: textOf(policy), meta: textOf(meta) };
}

export function guardText({ states, rev, fence, rang }: Guard): string {
  return argumentText("guard", {
    states: states.map((state) => stateCodes[state]).join(""),
    rev: packNumber(rev),
    fence: packNumber(fence),
    rang: rang ?? "",
  });
}
