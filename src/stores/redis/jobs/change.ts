/** Change (change.lua.ts): what operators and duties do to a job under a guard. */
import { stateOfCode } from "../../../model/job/job-state.ts";
import type { ChangeAnswer } from "../../../store/operations.ts";
import type { Operation } from "../connection/call.ts";
import { readHints } from "../feed/hint-text.ts";
import { appendText, guardText, nextText } from "../packing/next-text.ts";
import { fieldEnd, packNullable, packText, unpackText } from "../packing/value-text.ts";

export const changeIf: Operation<"changeIf"> = async (calls, changes) => {
  if (changes.length === 0) return [];
  const args = [String(changes.length), ...changes.map(({ id }) => packText(id))];
  for (const { cases, token = null } of changes) {
    args.push(packNullable(token), String(cases.length));
    for (const { guard, next, attempts = null, append } of cases)
      args.push(guardText(guard), nextText(next), packNullable(attempts), appendText(append));
  }
  const hasEntries = changes.some(({ cases }) => cases.some(({ append }) => append !== undefined));
  const name = hasEntries ? "mr1_change_journals" : "mr1_change";
  const [hints, answers] = (await calls.connection.write(name, args)) as [unknown, string[]];
  calls.hint(readHints(hints));
  return answers.map(answerOf);
};

function answerOf(answer: string): ChangeAnswer {
  const [kind, one = "", two = "", three = "", four = ""] = answer.split(fieldEnd);
  switch (kind) {
    case "ok": {
      const state = three === "" ? null : stateOfCode(Number(three));
      return { kind, applied: Number(one), from: stateOfCode(Number(two)), state, rev: Number(four) };
    }
    case "already":
    case "changed":
      return { kind, state: stateOfCode(Number(one)), rev: Number(two) };
    case "repeated":
    case "full":
      return { kind, state: stateOfCode(Number(one)), rev: Number(two) };
    case "key-held":
      return { kind, by: unpackText(one) };
    default:
      return { kind: "gone" };
  }
}
