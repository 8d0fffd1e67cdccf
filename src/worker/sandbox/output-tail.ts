/** The end of a run's output, per stream, and its length in all. Earlier output is discarded at once. */
import { attemptOutputCharsMax } from "../../model/job/attempt-log.ts";
import type { AttemptOutput } from "../../model/job/attempt-log.ts";

/** A character takes up to four bytes. */
const keptBytes = attemptOutputCharsMax * 4;

/** Lines that Node.js prints after the message of an error. */
const notWords = /^(Node\.js v\d|\s+at )/;

export class OutputTail {
  readonly #kept: Record<"stdout" | "stderr", Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  #bytes = 0;

  /** Bytes of both streams since the last `clear`. */
  get bytes(): number {
    return this.#bytes;
  }

  add(stream: "stdout" | "stderr", piece: Buffer): void {
    this.#bytes += piece.length;
    const whole = piece.length >= keptBytes ? piece : Buffer.concat([this.#kept[stream], piece]);
    this.#kept[stream] = whole.length > keptBytes ? Buffer.from(whole.subarray(-keptBytes)) : whole;
  }

  clear(): void {
    if (this.#bytes === 0) return;
    this.#bytes = 0;
    this.#kept.stdout = this.#kept.stderr = Buffer.alloc(0);
  }

  /** The output that is stored with the attempt; null if nothing was printed. */
  read(): AttemptOutput | null {
    if (this.#bytes === 0) return null;
    const [stdout, stderr] = [this.#kept.stdout, this.#kept.stderr].map((kept) =>
      kept.toString("utf8").slice(-attemptOutputCharsMax),
    );
    return { ...(stdout === "" ? {} : { stdout }), ...(stderr === "" ? {} : { stderr }) };
  }

  /** The last line with text, for a message; null if there is none. */
  get lastWords(): string | null {
    const { stderr, stdout } = this.#kept;
    const text = (stderr.length > 0 ? stderr : stdout).toString("utf8");
    const line = text.split("\n").findLast((each) => each.trim() !== "" && !notWords.test(each));
    return line === undefined ? null : line.trim().slice(0, 300);
  }
}
