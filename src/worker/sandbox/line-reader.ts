/**
 * Turns pieces of bytes into lines. A piece may end anywhere, even inside a character. The length of a line is bounded,
 * so that a sandbox that never ends its line cannot fill the memory of the worker.
 */

const newline = 0x0a;

export class LineReader {
  readonly #bytesMax: number;
  readonly #heard: (line: string) => void;
  readonly #tooLong: () => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #isOver = false;

  /** @param tooLong called once; nothing is read afterwards. */
  constructor(options: {
    readonly bytesMax: number;
    readonly heard: (line: string) => void;
    readonly tooLong: () => void;
  }) {
    this.#bytesMax = options.bytesMax;
    this.#heard = options.heard;
    this.#tooLong = options.tooLong;
  }

  read(piece: Buffer | string): void {
    if (typeof piece === "string") return this.#readText(piece);
    let from = 0;
    for (let at = piece.indexOf(newline); at >= 0 && !this.#isOver; at = piece.indexOf(newline, from)) {
      this.#keep(piece.subarray(from, at));
      from = at + 1;
      this.#handOut();
    }
    if (from < piece.length && !this.#isOver) this.#keep(piece.subarray(from));
  }

  /** A thread sends whole lines as texts. */
  #readText(text: string): void {
    for (const line of text.split("\n")) {
      if (this.#isOver) return;
      if (line.length > this.#bytesMax) this.#stop();
      else if (line !== "") this.#heard(line);
    }
  }

  #keep(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#bytesMax) this.#stop();
    else if (part.length > 0) this.#parts.push(part);
  }

  #handOut(): void {
    if (this.#isOver) return;
    const [first] = this.#parts;
    const line = this.#parts.length === 1 ? first : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#bytes = 0;
    const text = line?.toString("utf8").trim() ?? "";
    if (text !== "") this.#heard(text);
  }

  #stop(): void {
    this.#isOver = true;
    this.#parts = [];
    this.#tooLong();
  }
}
