/** The output of jobs (frames.sql.ts): what a write of it is packed as, and its pages. */
import { isTerminal, stateOfCode } from "../../../model/job/job-state.ts";
import type { FramesAnswer, FramesRead } from "../../../store/operations.ts";
import type { FramesPut } from "../../../store/records.ts";
import { callRead } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Row } from "../connection/database.ts";
import { numberList, packText, readNumbers, readTexts, unpackText } from "../functions/packed-values.ts";

/** As write_frames_v1 reads it. */
export function packedFrames({ chunks, summary, restarts, dropsTo }: FramesPut): object {
  return {
    numbers: chunks.map(({ number }) => number),
    bodies: chunks.map(({ body }) => packText(body)),
    summary: summary === undefined ? undefined : packText(summary),
    restarts,
    dropsTo: dropsTo && [dropsTo.fence, dropsTo.number],
  };
}

export async function readFrames(
  calls: Calls,
  reads: readonly FramesRead[],
): Promise<readonly FramesAnswer[]> {
  if (reads.length === 0) return [];
  const rows = await callRead(calls, "read_frames_v1", [
    reads.map(({ id }) => packText(id)),
    numberList(reads.map(({ after }) => after?.fence ?? null)),
    numberList(reads.map(({ after }) => after?.number ?? null)),
    numberList(reads.map(({ max }) => max)),
  ]);
  return rows.map(answerOf);
}

function answerOf([state, summary, fences, numbers, ats, bodies]: Row): FramesAnswer {
  if ((state ?? null) === null) return { kind: "gone" };
  const stateNow = stateOfCode(Number(state));
  const [numbersOf, atsOf, bodiesOf] = [
    readNumbers(numbers ?? null),
    readNumbers(ats ?? null),
    readTexts(bodies ?? null),
  ];
  return {
    kind: "ok",
    chunks: readNumbers(fences ?? null).map((fence, index) => ({
      fence,
      number: numbersOf[index] as number,
      at: atsOf[index] as number,
      body: bodiesOf[index] as string,
    })),
    summary: (summary ?? null) === null ? null : unpackText(summary as string),
    ended: isTerminal(stateNow) ? stateNow : null,
  };
}
