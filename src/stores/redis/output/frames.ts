/** The output of jobs (frames.lua.ts): the arguments of a write, and its pages. */
import { stateOfCode } from "../../../model/job/job-state.ts";
import type { TerminalState } from "../../../model/job/job-state.ts";
import type { FramesAnswer, FramesRead } from "../../../store/operations.ts";
import type { FramesPut } from "../../../store/records.ts";
import type { Operation } from "../connection/call.ts";
import { packText, rowsOf, unpackText } from "../packing/value-text.ts";
import { repair } from "../upkeep/unreadable.ts";

export function framesArgs({ chunks, summary, restarts, dropsTo }: FramesPut): string[] {
  return [
    restarts === true ? "1" : "",
    dropsTo === undefined ? "" : `${dropsTo.fence}-${dropsTo.number + 1}`,
    ...(summary === undefined ? ["0"] : ["1", packText(summary)]),
    String(chunks.length),
    ...chunks.flatMap(({ number, body }) => [String(number), packText(body)]),
  ];
}

type Page = readonly [ended: string, summary: string | null, ...chunks: string[]];
type Answer = [now: string, met: string[], answers: (Page | "gone")[]];

export const readFrames: Operation<"readFrames"> = async (calls, reads) => {
  if (reads.length === 0) return [];
  const answer = await calls.connection.read("mr1_read_frames", reads.flatMap(argsOf));
  const [, met, pages] = answer as Answer;
  await repair(calls, met);
  return pages.map((page) => (page === "gone" ? { kind: "gone" } : answerOf(page)));
};

function argsOf({ id, after, max }: FramesRead): string[] {
  return [packText(id), after === null ? "" : `${after.fence}-${after.number + 1}`, String(max)];
}

function answerOf([ended, summary, ...texts]: Page): FramesAnswer {
  const chunks = rowsOf<[place: string, at: string, body: string]>(texts, 3).map(([place, at, body]) => {
    const [fence, number] = place.split("-");
    return { fence: Number(fence), number: Number(number), at: Number(at), body: unpackText(body) };
  });
  return {
    kind: "ok",
    chunks,
    summary: summary === null ? null : unpackText(summary),
    ended: ended === "" ? null : (stateOfCode(Number(ended)) as TerminalState),
  };
}
