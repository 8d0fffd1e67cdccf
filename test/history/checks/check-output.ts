/**
 * The output of jobs: invariant 67. Frames are ordered by fence and number, and the store accepted them in this order.
 * If the order of all calls is known, the output is kept here once more, and must be the one that the store has. A
 * deleted job has none.
 */
import { readChunk } from "../../../src/model/output/chunk-text.ts";
import { isLocked } from "../../../src/store/operations.ts";
import type { LeasedWrite } from "../../../src/store/operations.ts";
import type { FrameChunk, FramePlace } from "../../../src/store/records.ts";
import type { StoreCall } from "../history.ts";
import type { Ledger, Violation } from "../ledger.ts";

const byPlace = (a: FramePlace, b: FramePlace): number => a.fence - b.fence || a.number - b.number;
const placeText = ({ fence, number }: FramePlace): string => `${fence}/${number}`;

export function* checkOutput(ledger: Ledger): Generator<Violation> {
  for (const [id, chunks] of ledger.outputs) yield* outputIsInOrder(id, chunks);
  for (const [id, acts] of Map.groupBy(actsOf(ledger), ({ write }) => write.id))
    if (acts.every(({ isKnown }) => isKnown) && !ledger.reborn.has(id) && ledger.records.has(id))
      yield* outputIsAsAcknowledged(ledger, id, acts);
}

function* outputIsInOrder(id: string, chunks: readonly FrameChunk[]): Generator<Violation> {
  for (const [index, chunk] of chunks.entries()) {
    const before = chunks[index - 1];
    const what = `the frames up to ${placeText(chunk)} of ${id}`;
    if (readChunk(chunk.body).origin > chunk.fence)
      yield { invariant: 67, id, message: `${what} belong to a newer fence` };
    if (before === undefined) continue;
    if (byPlace(before, chunk) >= 0)
      yield { invariant: 67, id, message: `${what} come after those up to ${placeText(before)}` };
    if (before.at > chunk.at)
      yield { invariant: 67, id, message: `${what} were accepted before those up to ${placeText(before)}` };
  }
}

interface Act {
  readonly write: LeasedWrite & { readonly frames: NonNullable<LeasedWrite["frames"]> };
  readonly call: StoreCall;
  readonly isKnown: boolean;
  readonly isApplied: boolean;
}

function actsOf(ledger: Ledger): readonly Act[] {
  return ledger.evidence.operations
    .flatMap((call): readonly Act[] => {
      if (call.kind !== "recordIfLeased") return [];
      return call.request.flatMap((write, index) => {
        if (write.frames === undefined) return [];
        const answer = call.answer?.[index];
        const isKnown =
          call.order !== null && (answer !== undefined ? !isLocked(answer) : call.seen !== "unknown");
        return [{ write: write as Act["write"], call, isKnown, isApplied: answer === "ok" }];
      });
    })
    .toSorted((one, other) => (one.call.order ?? 0) - (other.call.order ?? 0));
}

function* outputIsAsAcknowledged(ledger: Ledger, id: string, acts: readonly Act[]): Generator<Violation> {
  let kept: FramePlace[] = [];
  for (const { write, isApplied } of acts) {
    if (!isApplied) continue;
    const { fence, frames } = write;
    const newest = kept.at(-1);
    if (newest !== undefined && newest.fence > fence)
      yield { invariant: 67, id, message: `${id} wrote frames under #${fence} after #${newest.fence} had` };
    if (frames.restarts === true) kept = kept.filter((place) => place.fence >= fence);
    const { dropsTo } = frames;
    const written = new Map(
      [...kept, ...frames.chunks.map(({ number }) => ({ fence, number }))].map((place) => [
        placeText(place),
        place,
      ]),
    );
    kept = [...written.values()].filter((place) => dropsTo === undefined || byPlace(place, dropsTo) > 0);
  }
  const there = (ledger.outputs.get(id) ?? []).map(placeText);
  const wanted = kept.toSorted(byPlace).map(placeText);
  if (there.join() !== wanted.join())
    yield { invariant: 67, id, message: `${id} has the output ${there.join()} instead of ${wanted.join()}` };
}
