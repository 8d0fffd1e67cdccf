/** Planted violations of invariant 67: the output of jobs. */
import type { Scribe } from "../scribe.ts";
import { twoAttempts, withSnapshot } from "./planted.ts";
import type { Planted, Write } from "./planted.ts";

/** Two attempts, of which each writes. */
function twoWrite(s: Scribe, secondRestarts = true): void {
  s.submit({ id: "a", ...twoAttempts });
  s.claim("a");
  s.now += 5;
  s.write("a", [2, 3], { restarts: true });
  s.settle("a", "retry");
  s.claim("a");
  s.now += 5;
  s.write("a", [1], secondRestarts ? { restarts: true } : {});
  s.now += 5;
  s.write("a", [4]);
}

const bent = (
  bend: (chunk: { fence: number; number: number; at: number; body: string }, index: number) => object,
) =>
  withSnapshot(({ outputs }) => ({
    outputs: outputs.map(({ id, chunks }) => ({
      id,
      chunks: chunks.map((chunk, index) => ({ ...chunk, ...bend(chunk, index) })),
    })),
  }));

export const trueOutput: Record<string, Write> = {
  "an attempt that begins the output anew": (s) => {
    twoWrite(s);
    s.settle("a", "completed");
  },
  "one that goes on with it": (s) => {
    twoWrite(s, false);
    s.settle("a", "completed");
  },
  "a job that is deleted with its output": (s) => {
    twoWrite(s);
    s.settle("a", "completed");
    s.remove("a");
  },
};

export const plantedOutput: readonly Planted[] = [
  [
    67,
    "frames of an old fence stand after newer ones",
    (s) => twoWrite(s, false),
    withSnapshot(({ outputs }) => ({
      outputs: outputs.map(({ id, chunks }) => ({ id, chunks: chunks.toReversed() })),
    })),
  ],
  [
    67,
    "a frame of an old fence was accepted after one of the newer",
    (s) => twoWrite(s, false),
    bent((chunk, index) => (index === 0 ? { at: chunk.at + 1000 } : {})),
  ],
  [
    67,
    "an old attempt writes frames of the one after it",
    (s) => twoWrite(s),
    bent(({ fence }) => ({ body: `${fence + 1};d1:1` })),
  ],
  [
    67,
    "acknowledged frames are gone",
    (s) => twoWrite(s),
    withSnapshot(({ outputs }) => ({
      outputs: outputs.map(({ id, chunks }) => ({ id, chunks: chunks.slice(1) })),
    })),
  ],
];
