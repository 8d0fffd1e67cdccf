/**
 * A view that is drawn over itself on a terminal, frame by frame, without flicker and without leaving anything of an
 * older frame on the screen. It never draws more lines than the terminal has, nor longer ones.
 */
import type { Terminal } from "../../platform/terminal.ts";
import { shorten } from "../output/escape.ts";

/** Each line is written over the old one and only its rest is cleared: a frame that began by clearing would flicker. */
const nextLine = "\u001b[K\n";
/** Terminals that know synchronised updates show the frame at once; the others ignore the marks. */
const beginFrame = "\u001b[?2026h";
const endFrame = "\u001b[0J\u001b[?2026l";

export class Screen {
  readonly #terminal: Terminal;
  #drawnLines = 0;
  #drawnColumns = 0;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  draw(given: readonly string[]): void {
    const { columns, rows } = this.#terminal;
    const lines = given
      .slice(0, Math.max(1, rows - 2))
      .map((line) => (line.includes("\u001b") ? line : shorten(line, columns - 1)));
    this.#terminal.writeOut(
      `${beginFrame}${this.#toTop(columns)}${lines.join(nextLine)}${nextLine}${endFrame}`,
    );
    this.#drawnLines = lines.length;
    this.#drawnColumns = columns;
  }

  /**
   * A terminal that was made narrower has wrapped the lines, so the first one cannot be found: the screen is cleared
   * instead.
   */
  #toTop(columns: number): string {
    if (columns < this.#drawnColumns) return "\u001b[2J\u001b[H";
    return this.#drawnLines === 0 ? "" : `\u001b[${this.#drawnLines}A`;
  }
}
