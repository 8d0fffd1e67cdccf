/**
 * Record (record.lua.ts): what running attempts write while they run. Entries of many runs are one call, which answers
 * a number for each.
 */
import type { LeasedWrite, RecordAnswer } from "../../../store/operations.ts";
import { hasMark } from "../../../model/durable/durable-marks.ts";
import type { Operation } from "../connection/call.ts";
import { readHints } from "../feed/hint-text.ts";
import { pushUnit, Shapes } from "../jobs/submit-text.ts";
import { framesArgs } from "../output/frames.ts";
import { recordParts, valueText } from "../packing/argument-text.ts";
import { entryText } from "../packing/next-text.ts";
import { fieldEnd, handleOf, leasePrefix, packText, unpackText } from "../packing/value-text.ts";

export const recordIfLeased: Operation<"recordIfLeased"> = async (calls, writes) => {
  if (writes.length === 0) return [];
  const shapes = new Shapes();
  const args: string[] = [String(writes.length), ...writes.map(({ seq }) => handleOf(seq))];
  for (const write of writes) pushWrite(args, shapes, write);
  type Answer = [now: string, hints: unknown, answers: (number | string)[]];
  const [now, hints, answers] = (await calls.connection.write("mr1_record", [
    ...shapes.args(),
    ...args,
  ])) as Answer;
  if (writes.some(({ effects, frames }) => effects !== undefined || frames !== undefined))
    calls.hint(readHints(hints));
  return answers.map((answer) => answerOf(answer, Number(now)));
};

function partsOf({ progress, logs = [], frames, entries, setsBack, effects, steps }: LeasedWrite): number {
  const { progress: hasProgress, logs: hasLogs, frames: hasFrames, ...ofEntries } = recordParts;
  const parts =
    (progress === undefined ? 0 : hasProgress) +
    (logs.length === 0 ? 0 : hasLogs) +
    (frames === undefined ? 0 : hasFrames);
  if (entries === undefined) return parts;
  const isEnding = entries.some(({ marks = 0 }) => hasMark(marks, "isEnding"));
  return (
    parts +
    ofEntries.entries +
    (setsBack === true ? ofEntries.setsBack : 0) +
    (effects === undefined ? 0 : ofEntries.effects) +
    (steps === undefined ? 0 : ofEntries.steps) +
    (isEnding ? ofEntries.ending : 0)
  );
}

function pushWrite(args: string[], shapes: Shapes, write: LeasedWrite): void {
  const { progress, logs = [], overflow, frames, entries, effects, steps } = write;
  args.push(leasePrefix(write), String(partsOf(write)));
  if (progress !== undefined) args.push(packText(progress));
  if (logs.length > 0)
    args.push(valueText(overflow && packText(overflow)), String(logs.length), ...logs.map(packText));
  if (frames !== undefined) args.push(...framesArgs(frames));
  if (entries === undefined) return;
  args.push(String(entries.length), ...entries.map(entryText));
  if (steps !== undefined) args.push(String(steps.length), ...steps.map(packText));
  if (effects !== undefined) pushUnit(args, shapes, { jobs: [], ...effects }, true);
}

function answerOf(answer: number | string, at: number): RecordAnswer {
  if (typeof answer === "number") return { kind: "appended", last: answer, at };
  const [kind = "", id] = answer.split(fieldEnd);
  return (id === undefined ? kind : { kind, id: unpackText(id) }) as RecordAnswer;
}
